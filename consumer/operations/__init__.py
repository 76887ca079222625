"""Tasks that an operator starts by hand; each reads topics once and ends."""
