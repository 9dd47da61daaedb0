"""Requests of many domains with known breaks, to measure what the verdict says of them."""
