"""Before collection: which views are asked, and how many users report on each."""
