"""Reports on disk from their acknowledgement until their window is over."""
