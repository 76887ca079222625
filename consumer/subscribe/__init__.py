"""The reader of the snapshot topic: assembles records into complete sets."""
