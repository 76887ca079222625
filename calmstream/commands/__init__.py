"""The commands of the command line, one file per command: its options and its execution."""
