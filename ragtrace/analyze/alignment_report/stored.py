"""What the store already holds of explanations, read once, and told apart by what it speaks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ragtrace.analyze.alignment_report.observed import Explained, Observation, Stratum, observed, read_explained
from ragtrace.analyze.alignment_report.words import Tagging, WordSample, sampled_words
from ragtrace.store import Store

__all__ = ["Stored"]

_NO_ALIGNMENT = "the documents' ranking is not known"


@dataclass(slots=True)
class Stored:
    """The observations and word samples of all explained requests.

    drawn, with_retrieval: requests that were explained because they were drawn, and those of them whose retrieval was.
    """

    observations: list[Observation] = field(default_factory=list)
    words: list[WordSample] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    drawn: int = 0
    with_retrieval: int = 0

    @classmethod
    def read(
        cls, store: Store, *, service: str | None = None, since: int | None = None, tagging: Tagging | None = None
    ) -> Stored:
        """Read them all. since: only requests that started then or later, in nanoseconds."""
        stored = cls()
        for explained in read_explained(store, service=service, since=since):
            stored._add(explained, tagging)
        return stored

    def _add(self, explained: Explained, tagging: Tagging | None) -> None:
        found = explained.explanation
        self.drawn += explained.drawn
        self.with_retrieval += explained.drawn and bool(found.retriever)
        observation = observed(explained)
        if observation is not None:
            self.observations.append(observation)
        elif found.generator is not None or "generator" in found.skipped:
            reason = found.skipped.get("alignment") or found.skipped.get("generator") or _NO_ALIGNMENT
            self.skipped[reason] += 1
        sample = sampled_words(explained, tagging)
        if sample is not None:
            self.words.append(sample)

    def observations_of(self, stratum: Stratum) -> list[Observation]:
        """Those of one stratum."""
        return [each for each in self.observations if each.drawn is (stratum == "random")]

    def words_of(self, stratum: Stratum) -> tuple[Stratum, list[WordSample]]:
        """Those of one stratum, and which one that is: retrieval that only flags had explained is never random."""
        if self.drawn and self.with_retrieval == self.drawn:
            return stratum, [each for each in self.words if each.drawn is (stratum == "random")]
        return "flagged", [replace(each, weight=1.0) for each in self.words]
