"""The line between supported and not, in one place."""

from __future__ import annotations

from typing import Final

__all__ = ["SUPPORTED"]

SUPPORTED: Final = 0.5  # support from which a claim counts as supported: a probability, both being alike likely
