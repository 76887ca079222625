"""Models of means, pairs and triples, and of the joint distribution."""
