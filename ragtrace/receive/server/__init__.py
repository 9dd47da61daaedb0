"""The receiver: OTLP over HTTP, committed before it is acknowledged."""

from __future__ import annotations
