"""Transport of bytes: the protocols of a broker, an in-process broker, and Apache Kafka."""
