"""The demo in a browser: a page reports, the gateway takes the reports, and tables appear.

``pipeline`` runs every part of the service in one process, ``page`` serves the page and the newest
tables. The command is ``calmstream demo-web``.
"""
