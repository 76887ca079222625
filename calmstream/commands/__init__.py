"""The commands of the command line, one file each: its docstring is what ``--help`` says."""
