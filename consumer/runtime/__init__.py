"""What all roles of the service share.

Settings, threads and signals, health and its web server, retries, the reading of topics to their
ends, and the checks that topics exist and are set correctly. Nothing here knows what is counted.
"""
