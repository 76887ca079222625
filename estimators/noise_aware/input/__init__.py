"""What the model is fitted to: unbiased statistics of the reports, and of earlier plans."""
