"""Spans of anybody's tracing become request records: decoding, dialects, assembly."""

from __future__ import annotations
