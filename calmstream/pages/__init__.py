"""The output of commands: published tables for people, files for programs, generated pages."""
