"""The pure kernel of calmstream: numpy in, numpy out; no Kafka, clock, logging, files or network."""
