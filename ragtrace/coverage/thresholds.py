"""The line between supported and not, in one place."""

from __future__ import annotations

from typing import Final

__all__ = ["SUPPORTED"]

SUPPORTED: Final = 0.6  # lexical support (and contradiction) from which a claim counts as supported (contradicted)
