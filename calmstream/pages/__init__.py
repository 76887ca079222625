"""What several commands print: published tables for people, files for programs."""
