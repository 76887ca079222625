"""The pure kernel: numpy in, numpy out; no Kafka, clock, logging, files or network."""
