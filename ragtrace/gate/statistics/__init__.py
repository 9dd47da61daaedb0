"""The gate's arithmetic: differences, their intervals and tests, multiplicity, power. See docs/gate-statistics.md."""

from __future__ import annotations
