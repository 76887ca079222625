"""The public face: what a device, a subscriber and an operator use."""
