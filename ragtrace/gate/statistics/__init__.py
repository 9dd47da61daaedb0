"""The gate's arithmetic: differences, their intervals and tests, multiplicity, power; see
docs/explanation/gate-statistics.md."""

from __future__ import annotations
