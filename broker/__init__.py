"""The leaf that carries bytes: protocols, an in-process broker, and Apache Kafka behind them."""
