"""What the models are fitted to: unbiased statistics of the reports."""
