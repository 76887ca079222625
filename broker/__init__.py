"""Transport of bytes over a log broker, behind the protocols of `broker.transport`."""
