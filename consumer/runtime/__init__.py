"""The parts that all roles of the service share.

They are settings, threads and signals, health and its web server, retries, reading of topics to
their ends, and checks that topics exist and have the right settings. They do not depend on the
meaning of the records.
"""
