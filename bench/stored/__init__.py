"""Stores of any number of requests for `bench/ingest.py`, made in place, and how long it takes to read them."""

from bench.stored.filling import LARGEST, fill, room_for
from bench.stored.reading import NEWEST, Reads, read

__all__ = ["LARGEST", "NEWEST", "Reads", "fill", "read", "room_for"]
