"""The gateway: anything that speaks HTTP hands in reports, which leave in batches for Kafka."""
