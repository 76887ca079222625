"""Tables of records: CSV of any kind, Parquet, JSON lines and Excel, and what they say.

The standard library reads CSV: DuckDB refuses mixed line ends and long cells, knows few encodings
without a download, and skips lines before a header silently.
"""
