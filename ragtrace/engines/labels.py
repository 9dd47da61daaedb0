"""Which output of a sequence classifier means that the evidence supports a claim, and which that it contradicts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtrace.errors import ModelError

__all__ = ["Outputs", "read_outputs"]

_AGAINST: Final = re.compile(r"contradict|refut|conflict")
_NOT: Final = re.compile(r"\bnot?\b|\bnon|\bun|\bin(?=consisten|correct|accura)|hallucinat|neutral|unknown|\bnei\b")
_FOR: Final = re.compile(r"entail|support|consisten|ground|faithful|attribut|factual|correct|accura")
_UNNAMED: Final = re.compile(r"label \d+")
_REMEDY: Final = (
    "name them in id2label of its config.json (entailment, neutral, contradiction; supported, unsupported; or one "
    "label for a score), or give labels"
)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The places of a classifier's outputs. `support` None: one output, a score whose sigmoid is the support."""

    support: int | None
    contradiction: int | None = None


def read_outputs(name: str, config: Any, labels: Sequence[str] | None = None) -> Outputs:
    """Read the outputs' meaning from a model's config, or from `labels` in the order of the outputs.

    Raises: ModelError where it cannot be told: outputs without names, two that support, none that does.
    """
    count = int(config.num_labels)
    if count == 1:
        return Outputs(None)
    if getattr(config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise ModelError(
            f"model {name!r} has {count} outputs that are no classes ({config.problem_type}); give a model with "
            "classes, or with one score"
        )
    names = _names(name, config.id2label, labels, count)
    read = [_meaning(each) for each in names]
    if read.count("support") != 1 or read.count("contradiction") > 1 or None in read:
        raise ModelError(f"what the outputs of model {name!r} mean cannot be told from {list(names)}; {_REMEDY}")
    against = read.index("contradiction") if "contradiction" in read else None
    return Outputs(read.index("support"), against)


def _names(name: str, given: Mapping[Any, str] | None, labels: Sequence[str] | None, count: int) -> Sequence[str]:
    if labels is not None:
        if len(labels) != count:
            raise ModelError(f"model {name!r} has {count} outputs, not {len(labels)}; give a label for each")
        return labels
    by_place = {int(place): str(label) for place, label in (given or {}).items()}
    return [by_place.get(place, f"LABEL_{place}") for place in range(count)]


def _meaning(label: str) -> str | None:
    """`support`, `contradiction` or `other`; None for a name that tells nothing."""
    plain = re.sub(r"[^a-z0-9]+", " ", label.casefold()).strip()
    if _UNNAMED.fullmatch(plain):
        return None
    if _AGAINST.search(plain) and not _NOT.search(plain):
        return "contradiction"
    if _NOT.search(plain):
        return "other"
    return "support" if _FOR.search(plain) else None
