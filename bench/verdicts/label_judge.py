"""A judge that knows the labels of one domain, and errs as often as it is told to, in each of its three roles.

With it the benchmark asks how far the verdict's rules come where the models are no longer what holds them back.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Final

from bench.verdicts.model import Domain, Question
from bench.verdicts.pipeline import FRAMES, MARK, REFUSALS, Index, bare, index_of, marks_of
from ragtrace.coverage import is_abstention
from ragtrace.engines.calibration import Calibration

__all__ = ["LabelJudge"]

_WORD: Final = re.compile(r"[^\W_]+")
_RUN: Final = 8  # words of a passage in a row, by which a sentence of it is known
_NEARLY_ALL: Final = 0.9  # of the words that a claim has in common with a passage
_SHORTEST: Final = 12  # characters of a text that can be found in another
_BEGINNING: Final = 100  # characters by which a text is known that begins others


class LabelJudge:
    """What a domain's labels say of (question, chunk), (claim, evidence) and (question, answer), with noise.

    noise: the share of pairs whose label is turned around; the same pair always errs alike. What it says is the
    probability that it is right. together: whether all judgments of one claim err together, and all of a question and
    texts with the same beginning, as those of a model do that misreads a claim or a chunk.
    """

    def __init__(self, domain: Domain, noise: float, seed: int | str = 0, *, together: bool = False) -> None:
        self.name = f"labels with {noise:.0%} noise"
        self.digest = f"{domain.name}:{noise}:{seed}:{together}"
        self.noise, self._seed, self._together = noise, seed, together
        self.calibration = Calibration("temperature", self.digest, ece=0.0, lead=1.0)  # as if labels had shown it
        self._domain = domain
        self._questions = {question.question: question for question in domain.questions}
        self._relevant: dict[str, frozenset[str]] = {}

    def verify(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        """(support, contradiction) of each (claim, evidence)."""
        return [(self._told("entails", pair, self._is_supported(*pair)), 0.0) for pair in pairs]

    def relevant(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability that each (question, chunk) is a question and evidence for it."""
        return [self._told("relevant", pair, self._is_evidence(*pair)) for pair in pairs]

    def answers(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The probability that each (question, answer) belong together."""
        return [self._told("answers", pair, self._is_answer(*pair)) for pair in pairs]

    def _told(self, role: str, pair: tuple[str, str], label: bool) -> float:
        if not self.noise:
            return 0.99 if label else 0.01
        long = _begins(role, pair[1]) if self._together else pair[1]
        key = f"{self._seed}\0{role}\0{pair[0]}\0{long}"
        errs = random.Random(hashlib.blake2b(key.encode(), digest_size=8).digest()).random() < self.noise
        return 1 - self.noise if label != errs else self.noise

    def _is_evidence(self, question: str, chunk: str) -> bool:
        asked = self._questions.get(question)
        if asked is None:
            return False
        return bool(self._evidence_of(asked) & self._held(chunk))

    def _evidence_of(self, question: Question) -> frozenset[str]:
        if question.id not in self._relevant:
            named = frozenset().union(*question.evidence) if question.evidence else frozenset()
            self._relevant[question.id] = self._index.duplicates(named) if named else frozenset()
        return self._relevant[question.id]

    @cached_property
    def _index(self) -> Index:
        return index_of(self._domain)

    def _held(self, chunk: str) -> frozenset[str]:
        """The passages that a text holds whole."""
        return frozenset(each for each, text in self._passages if text in _plain(chunk))

    @cached_property
    def _passages(self) -> list[tuple[str, str]]:
        return [(each.id, _plain(each.text)) for each in self._domain.passages.values()]

    def _is_supported(self, claim: str, evidence: str) -> bool:
        said, told = _plain(claim), _plain(evidence)
        if len(said) < 2:  # "£9."
            return any(
                said in text.split() and any(each in told for each in supports) for text, supports in self._known
            )
        if said in told or any(rest in told for rest in _unframed(said)):
            return True
        for text, supports in self._known:
            if said in text or (len(text) >= _SHORTEST and any(rest in text for rest in _unframed(said))):
                if any(passage in told for passage in supports):
                    return True
                if any(_tells(passage, told, said) for passage in supports):
                    return True
        return False

    @cached_property
    def _known(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every sound answer and what is written for a near miss, with the passages that bear it out."""
        texts = dict(self._passages)
        known = []
        for question in self._domain.questions:
            evidence = sorted(self._evidence_of(question))
            for answer in question.answers:
                ids = dict.fromkeys([*marks_of(answer, self._domain), *evidence])
                supports = tuple(texts[each] for each in ids) or ("",)  # what is told of what no text says holds
                known.append((_plain(bare(answer, self._domain)), supports))
            if question.misled is not None:
                ids = dict.fromkeys([question.misled.rests_on, *marks_of(question.misled.answer, self._domain)])
                known.append((_plain(bare(question.misled.answer, self._domain)), tuple(texts[each] for each in ids)))
        return known

    def _is_answer(self, question: str, answer: str) -> bool:
        if is_abstention(answer) or answer in REFUSALS:
            return False
        said = _plain(re.sub(r"\[\d+\]", " ", answer))
        own = self._questions.get(question)
        for other in self._domain.questions:
            if other is own or not other.evidence:
                continue
            if any(said == _plain(bare(each, self._domain)) for each in other.answers):
                return own is not None and any(said == _plain(bare(each, self._domain)) for each in own.answers)
        return True


def _begins(role: str, text: str) -> str:
    """What of a long text tells which pairs err together: nothing of a claim's evidence, the beginning of a chunk."""
    return {"entails": "", "relevant": text[:_BEGINNING]}.get(role, text)


@lru_cache(maxsize=1 << 15)
def _plain(text: str) -> str:
    """The words of a text in lower case, without marks."""
    return " ".join(_WORD.findall(MARK.sub(" ", text).lower()))


def _unframed(said: str) -> list[str]:
    """A sentence without the words that the pipeline sets before one that it quotes."""
    frames = [_plain(frame.format("")) for frame in FRAMES]
    return [said[len(frame) :].lstrip() for frame in frames if frame and said.startswith(f"{frame} ")]


@lru_cache(maxsize=1 << 15)
def _tells(passage: str, told: str, said: str) -> bool:
    """Whether evidence that was gathered sentence by sentence holds what a passage has to say of a claim: nearly all of
    the claim's words that stand in the passage, in the passage's own runs of words, or a good part of the passage."""
    words = passage.split()
    runs = [" ".join(words[place : place + _RUN]) for place in range(0, max(1, len(words) - _RUN + 1))]
    held = [run for run in runs if run in told]
    if len(held) >= math.ceil(0.4 * len(runs)):
        return True
    shared = frozenset(said.split()) & frozenset(words)
    stated = frozenset(word for run in held for word in run.split()) & shared
    return bool(shared) and len(stated) >= _NEARLY_ALL * len(shared)
