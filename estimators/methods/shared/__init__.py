"""What several methods have in common: view sizes, expected errors, options, table fitting."""
