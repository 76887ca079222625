"""The accuracy report: what is measured, on what, and how it is shown."""
