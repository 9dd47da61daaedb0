"""Which requests are explained, and how deeply: by their flags, and some at random."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragtrace.analyze.attribution import PARTS, Part
from ragtrace.errors import ConfigurationError
from ragtrace.types import RequestRecord

__all__ = ["DEFAULT", "HOST", "Depths"]

HOST: Final = "host"
"""Stands for every flag that is the host application's own."""
_OURS: Final = (
    "error",
    "unfinished",
    "abstention",
    "low_retrieval_score",
    "low_coverage",
    "contradiction",
    "thumbs_down",
    "task_failure",
)
DEFAULT: Final = ",".join(
    f"{flag}=generator+retriever" for flag in ("low_coverage", "contradiction", "thumbs_down", "task_failure", HOST)
)
_NONE: Final = "none"
_WHOLE: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Depths:
    """The parts of an explanation that each flag buys, and the share of the random stratum that is explained.

    A request that was drawn counts in the random stratum of the metrics, whatever its flags: were those with flags left
    out or added, the stratum would say nothing of all requests.
    """

    by_flag: Mapping[str, frozenset[Part]]
    rate: float = 0.01

    @classmethod
    def parse(cls, text: str = DEFAULT, rate: float = 0.01) -> Depths:
        """Read `FLAG=PART+PART,...`, parts being generator, query and retriever; `none` for no flag.

        Raises: ConfigurationError for another form, an unknown part, or a rate outside of [0, 1].
        """
        if not 0 <= rate <= 1:
            raise ConfigurationError.of("explain rate", rate, "a number from 0 to 1")
        pairs = [] if text.strip() == _NONE else [each.partition("=") for each in text.split(",") if each.strip()]
        by_flag = {flag.strip(): frozenset(map(str.strip, parts.split("+"))) for flag, _, parts in pairs}
        if not all(flag and parts <= set(PARTS) for flag, parts in by_flag.items()):
            allowed = f"FLAG=PART+PART,... with the parts {', '.join(PARTS)}, or {_NONE}"
            raise ConfigurationError.of("explain", text, allowed)
        return cls({flag: frozenset(part for part in PARTS if part in parts) for flag, parts in by_flag.items()}, rate)

    def is_drawn(self, record: RequestRecord) -> bool:
        """Whether it is among those of the random stratum that are explained; by its id, so always the same."""
        digest = hashlib.blake2b(record.request_id.encode(), digest_size=8, person=b"explain").digest()
        return record.head_sampled and int.from_bytes(digest, "big") < self.rate * _WHOLE

    def parts_of(self, record: RequestRecord) -> tuple[Part, ...]:
        """What of it is explained; nothing where an exception or an empty answer leaves nothing to explain."""
        answer = record.generation.answer if record.generation is not None else None
        if record.error is not None or not (answer or "").strip():
            return ()
        flags = [flag if flag in _OURS or flag in self.by_flag else HOST for flag in record.flags]
        found: set[Part] = {part for flag in flags for part in self.by_flag.get(flag, ())}
        if self.is_drawn(record):
            found.add("generator")
        return tuple(part for part in PARTS if part in found)
