"""Walks the evidence of a request, a segment or an alert in order, and stops at the first confirmed break."""
