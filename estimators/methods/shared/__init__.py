"""Parts that several methods use: views over groups (`packing`), reading of parameters."""
