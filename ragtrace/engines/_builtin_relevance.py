"""The built-in judge of relevance: how near each token of a question comes to a chunk.

A logistic score of five features of a (question, chunk) pair, all of them cosines of tokens as all-MiniLM-L6-v2 reads
them in their sentence. Three are of late interaction (ColBERT, Khattab and Zaharia 2020): each token of the question
takes the largest cosine with any token of the chunk; of these the mean, the least and the lower quartile. Two are of
whole texts: the mean vector of the question beside that of the nearest sentence, and of all that is read of the chunk.

It tells what speaks of the question, and not whether that answers it: near relatives of the evidence look alike.
`bench/builtin_relevance.py` fits the weights and judges them on data sets left out;
docs/reference/builtin-relevance.md is the model card.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import gather
from ragtrace.engines._builtin_verifier import TokenEncoder, direction
from ragtrace.engines.text_pairs import CACHE_BYTES, PairCache, pair_key
from ragtrace.engines.tokens import readable
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair
    from ragtrace.engines.calibration import Calibration

__all__ = ["FEATURES", "BuiltinRelevance"]

FEATURES: Final = ("mean", "least", "quartile", "sentence", "whole")
"""What a pair is judged by, in the order of the rows of `BuiltinRelevance.features`."""
WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({
    "mean": 3.59, "least": 2.41, "quartile": 1.81, "sentence": 2.67, "whole": 3.51,
})  # fmt: skip
"""Of the log odds; `bench/builtin_relevance.py --fit`."""
BIAS: Final = -5.77
"""The mean of the offsets of the sets that it was fitted on, at even odds."""
NEAREST_WORDS: Final = 80
"""Of a chunk the sentences that are read: those nearest to the question by words."""
_AT_ONCE: Final = 512  # pairs whose tokens are in memory together


class BuiltinRelevance:
    """Says how likely a chunk is relevant to a question, from token embeddings.

    Attributes:
        name, digest: stored with the grades.
        calibration: None: its probabilities are of even odds over several data sets, and of no service.

    Raises: ModelError for a calibration of another judge.
    """

    name: Final = "builtin"

    def __init__(
        self, encoder: TokenEncoder, *, calibration: Calibration | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._encoder = encoder
        self._cache = PairCache(cache_bytes)
        self.calibration = calibration
        if calibration is not None and calibration.model != self.digest:
            raise ModelError(f"calibration {calibration.id} is of another judge than {self.name!r}; fit it again")

    @classmethod
    def load(cls, calibration: Calibration | None = None) -> Self:
        """With the encoder that the models extra installs. Raises: MissingExtraError without the extra."""
        return cls(TokenEncoder.load(), calibration=calibration)

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        said = f"{self._encoder.digest} {BIAS} {sorted(WEIGHTS.items())} {NEAREST_WORDS}"
        return hashlib.blake2b(said.encode(), digest_size=6).hexdigest()

    def nearness(self, pairs: Sequence[Pair]) -> list[float]:
        """How near each answer is to its question, (question, answer) by (question, answer): `TokenEncoder.cosines`."""
        return self._encoder.cosines(pairs)

    def relevant(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability in [0, 1], at even odds, that the chunk of each (question, chunk) holds what answers it or a
        needed part of it; 0 for a chunk without text. Every distinct pair is read once, and not again while it is in
        the cache."""
        import numpy as np

        keys = [pair_key(*pair) for pair in pairs]
        said = {key: self._cache.get(key) for key in keys}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if said[key] is None}
        odds = self.features(list(missing.values())) @ np.array([WEIGHTS[name] for name in FEATURES]) + BIAS
        fresh = {
            key: (share if pair[1].strip() else 0.0,)
            for (key, pair), share in zip(missing.items(), (1 / (1 + np.exp(-odds))).tolist(), strict=True)
        }
        self._cache.put(fresh)
        shares = np.array([(fresh.get(key) or said[key] or (0.0,))[0] for key in keys])
        if self.calibration is not None:
            shares = np.where(shares > 0, self.calibration.apply(shares), 0.0)
        return [float(share) for share in shares]

    def features(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Of each (question, chunk) the values that `FEATURES` names: `(n, 5)`, each in [-1, 1]."""
        import numpy as np

        pairs = [(readable(question), readable(chunk)) for question, chunk in pairs]
        rows: list[list[float]] = []
        for start in range(0, len(pairs), _AT_ONCE):
            chosen = pairs[start : start + _AT_ONCE]
            read = [self._pieces(gather(question, [chunk], limit=NEAREST_WORDS)) for question, chunk in chosen]
            asked = {question: self._encoder.pieces(question) for question, _ in chosen}
            texts = dict.fromkeys(text for parts in (*asked.values(), *read) for text in parts)
            vectors = dict(zip(texts, self._encoder.encode(list(texts)), strict=True))
            rows += [
                _measured([vectors[part] for part in asked[question]], [vectors[part] for part in parts])
                for (question, _), parts in zip(chosen, read, strict=True)
            ]
        return np.array(rows, dtype=np.float64).reshape(len(pairs), len(FEATURES))

    def _pieces(self, text: str) -> list[str]:
        """The sentences, in pieces that the encoder reads whole."""
        return [piece for sentence in sentences(text) for piece in self._encoder.pieces(sentence.text)]


def _measured(question: Sequence[NDArray[np.float32]], chunk: Sequence[NDArray[np.float32]]) -> list[float]:
    """The five features of token vectors of unit length; 0 where a side has none."""
    import numpy as np

    parts = [part for part in chunk if len(part)]
    asked = np.concatenate(question) if question else np.zeros((0, 0), dtype=np.float32)
    if not parts or not len(asked):
        return [0.0] * len(FEATURES)
    held = np.concatenate(parts)
    nearest = (asked @ held.T).max(axis=1)
    mean = direction([asked])
    return [
        float(nearest.mean()),
        float(nearest.min()),
        float(np.quantile(nearest, 0.25)),
        max(float(mean @ direction([part])) for part in parts),
        float(mean @ direction([held])),
    ]
