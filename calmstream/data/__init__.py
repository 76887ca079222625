"""The example data that the package contains; README.md names its source."""
