"""The methods of four papers, as guests: what only they need is in their rooms.

They stand behind the same contracts as the methods and mechanisms of other packages, and are found
by entry points too.
"""
