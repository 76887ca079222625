"""Samplers that draw from the posterior distributions of the models."""
