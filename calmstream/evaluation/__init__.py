"""`evaluate`: the error of a method on a data set, measured by simulated collection."""
