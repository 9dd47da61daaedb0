"""Trains, calibrates and evaluates a verifier on labelled claims; reading the data needs no torch."""
