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
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import gather
from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.models import load_package, load_pretrained, torch_threads, weights_digest
from ragtrace.engines.text_pairs import CACHE_BYTES, PairCache, pair_key
from ragtrace.engines.tokens import cut, readable
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair
    from ragtrace.engines.calibration import Calibration

__all__ = ["FEATURES", "BuiltinRelevance", "TokenEncoder"]

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
VECTOR_BYTES: Final = 64 << 20
"""Of vectors that are kept: about 2,000 sentences."""
_MAX_TOKENS: Final = 128  # of a sentence, as the encoder was trained
_BATCH: Final = 64
_PADDING: Final = 1.2  # the longest text of a batch, relative to its shortest
_AT_ONCE: Final = 512  # pairs whose tokens are in memory together


class TokenEncoder:
    """Vectors of the tokens of texts, as a transformer reads them, of unit length; marks and signs are left out.

    cache_bytes: what the vectors of texts that were read may take, by a hash of each text: a service's passages come
    again. What was asked for longest ago goes first.
    """

    def __init__(self, model: Any, tokenizer: Any, *, threads: int | None = 1, cache_bytes: int = VECTOR_BYTES) -> None:
        import numpy as np

        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._threads = threads
        self._lock = Lock()  # how far a tokenizer reads is its state
        self._cache_bytes = cache_bytes
        self._kept: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._kept_bytes = 0
        special = set(tokenizer.all_special_tokens)
        known = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self._is_word = np.array([token not in special and any(map(str.isalnum, token)) for token in known])
        self.digest: str = weights_digest(model)

    @classmethod
    def load(cls, *, threads: int | None = 1) -> Self:
        """The encoder that the models extra installs. Raises: MissingExtraError without the extra."""
        library = load_package("transformers")

        def loaded(kind: Any) -> Any:
            return load_pretrained(
                packaged_encoder(), lambda name, local: kind.from_pretrained(name, local_files_only=local)
            )

        return cls(loaded(library.AutoModel).float(), loaded(library.AutoTokenizer), threads=threads)

    def pieces(self, text: str) -> list[str]:
        """`text` in pieces that are read to their end, cut between tokens."""
        room = _MAX_TOKENS - self._tokenizer.num_special_tokens_to_add()
        if len(text.encode("utf-8", "replace")) < room:  # there are hardly ever more tokens than bytes
            return [text]
        with self._lock:
            return cut(self._tokenizer, text, room)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """For each text `(n_tokens, dimension)`, in the order given; those that are not in the cache are read, texts of
        similar length together. A text without a word has the vectors of all of its tokens."""
        keys = [pair_key(text, "") for text in texts]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        fresh = dict(zip(missing, self._read(list(missing.values())), strict=True))
        self._keep(fresh)
        found |= fresh
        return [found[key] for key in keys]

    def cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """The cosine of each pair of texts, in [-1, 1]: of the means of their tokens' vectors. Each text is read once,
        to its end, all of them together; 0 where one is empty."""
        texts = {text: self.pieces(readable(text)) for text in dict.fromkeys(text for pair in pairs for text in pair)}
        pieces = dict.fromkeys(piece for parts in texts.values() for piece in parts)
        vectors = dict(zip(pieces, self.encode(list(pieces)), strict=True))
        means = {text: _direction([vectors[piece] for piece in parts]) for text, parts in texts.items()}
        return [round(float(means[one] @ means[other]), 4) if one and other else 0.0 for one, other in pairs]

    def _keep(self, fresh: Mapping[bytes, NDArray[np.float32]]) -> None:
        with self._lock:
            for key, rows in fresh.items():
                if key not in self._kept:
                    self._kept[key] = rows
                    self._kept_bytes += rows.nbytes
            while self._kept_bytes > self._cache_bytes:
                self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes

    def _read(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """The vectors of texts, read by the model."""
        import numpy as np
        import torch

        if not texts:
            return []
        with self._lock:
            ids = self._tokenizer(list(texts), truncation=True, max_length=_MAX_TOKENS, verbose=False)["input_ids"]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        found: list[NDArray[np.float32]] = [np.zeros((0, 0), dtype=np.float32)] * len(ids)
        with torch_threads(self._threads), torch.inference_mode():
            for places in _alike([len(each) for each in ids], order):
                padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids[each]) for each in places], True)
                lengths = torch.tensor([len(ids[each]) for each in places])
                mask = (torch.arange(padded.shape[1])[None] < lengths[:, None]).long()
                given = {"input_ids": padded.to(self._model.device), "attention_mask": mask.to(self._model.device)}
                states = torch.nn.functional.normalize(self._model(**given).last_hidden_state.float(), dim=-1)
                for place, rows in zip(places, states.cpu().numpy(), strict=True):
                    is_word = self._is_word[ids[place]]
                    rows = rows[: len(ids[place])]
                    found[place] = np.array(rows[is_word] if is_word.any() else rows)  # none of the batch stays
        return found


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
    mean = _direction([asked])
    return [
        float(nearest.mean()),
        float(nearest.min()),
        float(np.quantile(nearest, 0.25)),
        max(float(mean @ _direction([part])) for part in parts),
        float(mean @ _direction([held])),
    ]


def _direction(pieces: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The mean of the token vectors of a text's pieces, of unit length."""
    import numpy as np

    mean = np.concatenate(pieces).mean(axis=0)
    length = float(np.linalg.norm(mean))
    found: NDArray[np.float32] = mean / length if length > 0 else mean
    return found


def _alike(lengths: Sequence[int], order: Sequence[int]) -> Iterator[list[int]]:
    """Places in groups of similar lengths, at most `_BATCH`, so that little of what is read is padding. order: the
    shortest first."""
    group: list[int] = []
    for place in order:
        shortest = lengths[group[0]] if group else 0
        if group and (len(group) == _BATCH or lengths[place] > max(_PADDING * shortest, shortest + 3)):
            yield group
            group = []
        group.append(place)
    if group:
        yield group
