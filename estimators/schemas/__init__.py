"""JSON Schemas (draft 2020-12) of the documents that other programs read and write.

They state the form; code checks how parts must fit each other (a view and the domain, a set).
"""
