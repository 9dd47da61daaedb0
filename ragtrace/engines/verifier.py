"""Verifiers of claims: a sequence classifier that reads claim and evidence (layer 2), and embeddings (layer 1).

A classifier reads windows over long evidence, with marks of words that claim and evidence share, and gives calibrated
support and contradiction. Embeddings say how close a claim is to the nearest sentence, or two, of its evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import gather
from ragtrace.engines.encoder import Encoder
from ragtrace.engines.pair_classifier import PairClassifier
from ragtrace.engines.text_pairs import Role
from ragtrace.engines.tokens import readable

if TYPE_CHECKING:
    from ragtrace.coverage.verifier import Pair, Verdict

__all__ = ["EmbeddingVerifier", "EntailmentVerifier"]


class EntailmentVerifier(PairClassifier):
    """A classifier of (claim, evidence) pairs, with the calibration of its probabilities where there is one."""

    default_role: ClassVar[Role] = "entails"

    @property
    def lexical_weight(self) -> float:
        """How much of what words alone say of a claim is added to what the model says; by the calibration."""
        return self.calibration.lexical_weight if self.calibration is not None else 0.0

    def verify(self, pairs: Sequence[Pair], *, on_progress: Callable[[int], None] | None = None) -> list[Verdict]:
        """(support, contradiction) of each (claim, evidence), calibrated where there is a calibration.

        The support is the largest over the evidence's windows, the contradiction the largest that this leaves.
        on_progress: gets the number of windows just read.

        Raises: as `probabilities`.
        """
        import numpy as np

        support, contradiction = self.probabilities(pairs, on_progress=on_progress)
        if self.calibration is not None:
            support = self.calibration.apply(support)
        against = np.minimum(contradiction, 1.0 - support)
        return list(zip(support.tolist(), against.tolist(), strict=True))


COSINE_SLOPE: Final = 0.88
"""Of the log odds of support on the cosine; fitted with `BIAS` and the weight of words on the development half of
RAGTruth QA with all-MiniLM-L6-v2, supported and unsupported claims alike frequent."""
COSINE_BIAS: Final = -0.56
NEAREST_WORDS: Final = 2000  # of a long evidence, those nearest to the claim by words, are read
EMBEDDING_BATCH: Final = 32


class EmbeddingVerifier:
    """Says how likely evidence supports a claim by the cosine of their embeddings; of contradictions it says nothing.

    Attributes:
        name, digest: of the encoder; stored with the claims.
        lexical_weight: how much of the log odds that words alone give is added.
        calibration: None, since the probability is that of words and cosine together.
    """

    layer: Final = "embeddings"
    lexical_weight: Final = 0.89
    calibration: Final = None

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = f"embeddings of {encoder.name}"

    @classmethod
    def load(cls, model: str | Path) -> EmbeddingVerifier:
        """Load a sentence-transformers model from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        return cls(Encoder.load(model))

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        return self._encoder.revision or ""

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """(support, 0) of each (claim, evidence); every distinct text of the call is encoded once, all in one batch."""
        pairs = [(readable(claim), readable(evidence)) for claim, evidence in pairs]
        windows = [self._windows(claim, evidence) for claim, evidence in pairs]
        texts = dict.fromkeys([claim for claim, _ in pairs] + [text for each in windows for text in each])
        vectors = dict(zip(texts, self._encoder.encode(list(texts), batch_size=EMBEDDING_BATCH), strict=True))
        nearest = [
            max((float(vectors[claim] @ vectors[text]) for text in each), default=0.0)
            for (claim, _), each in zip(pairs, windows, strict=True)
        ]
        return [(round(1 / (1 + math.exp(-(COSINE_SLOPE * cosine + COSINE_BIAS))), 4), 0.0) for cosine in nearest]

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each (question, answer), in [-1, 1]; a long text is read as far as the encoder reads."""
        texts = dict.fromkeys(readable(text) for pair in pairs for text in pair)
        vectors = dict(zip(texts, self._encoder.encode(list(texts), batch_size=EMBEDDING_BATCH), strict=True))
        return [round(float(vectors[readable(one)] @ vectors[readable(other)]), 4) for one, other in pairs]

    def _windows(self, claim: str, evidence: str) -> list[str]:
        """The sentences of the evidence, in pieces where the encoder would cut them, each alone and with the next."""
        read = sentences(gather(claim, [evidence], limit=NEAREST_WORDS))
        found = [piece for sentence in read for piece in self._encoder.pieces(sentence.text)]
        return found + [f"{one} {other}" for one, other in pairwise(found)]
