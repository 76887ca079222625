"""Tables of records: CSV of any kind, Parquet, JSON lines and Excel, and what they say.

The standard library reads CSV, as it names the line of every fault, reads mixed line ends, long
cells and all encodings from memory, and leaves nothing out silently. DuckDB does not: it refuses
the first two, knows few encodings without a download, and skips lines before a header.
"""
