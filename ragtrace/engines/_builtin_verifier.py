"""The built-in verifier of claims: what words measure, and how near each token of a claim comes to its evidence.

A logistic score of nine features of a (claim, evidence) pair. Six are of words: those of `coverage.support.lexical`,
the share of the claim's word pairs that stand in the evidence (the precision of ROUGE-2, Lin 2004), and what words
find against the claim. Three are of late interaction (ColBERT, Khattab and Zaharia 2020; BERTScore, Zhang et al. 2020):
each token of the claim takes the largest cosine with any token of the evidence's sentences, both as all-MiniLM-L6-v2
reads them in their sentence; of these the mean, the least and the lower quartile.

`bench/builtin_verifier.py` fits the weights and judges them on data sets left out; docs/reference/builtin-verifier.md
is the model card.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from ragtrace.coverage.support import Evidence, Lexical, Statement
from ragtrace.coverage.support.lexical import Ground, measure
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import gather
from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.models import load_package, load_pretrained, torch_threads, weights_digest
from ragtrace.engines.text_pairs import CACHE_BYTES, PairCache, pair_key
from ragtrace.engines.tokens import cut, readable
from ragtrace.types import Claim

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair, Verdict

__all__ = ["FEATURES", "BuiltinVerifier", "TokenEncoder", "direction"]

FEATURES: Final = ("against", "unseen", "pairs", "unstated", "held", "bigrams", "mean", "least", "quartile")
"""What a pair is judged by, in the order of the rows of `BuiltinVerifier.features`."""
WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({
    "against": -2.77, "unseen": -0.74, "pairs": -0.90, "unstated": -1.16, "held": 0.76, "bigrams": 1.13, "mean": 0.65,
    "least": 1.54, "quartile": 0.96,
})  # fmt: skip
"""Of the log odds of support. None has the sign against what it measures; `bench/builtin_verifier.py --fit`."""
BIAS: Final = -1.22
"""The largest of the offsets of the sets that it was fitted on."""
NEAREST_WORDS: Final = 600
"""Of the evidence, the sentences nearest to the claim by words are compared token by token."""
VECTOR_BYTES: Final = 64 << 20
"""Of vectors that are kept: about 2,000 sentences."""
_MAX_TOKENS: Final = 128  # of a sentence, as the encoder was trained
_BATCH: Final = 64
_PADDING: Final = 1.2  # the longest text of a batch, relative to its shortest
_AT_ONCE: Final = 256  # pairs whose tokens are in memory together: about 40 MB
_WORD: Final = re.compile(r"\w+")


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
        means = {text: direction([vectors[piece] for piece in parts]) for text, parts in texts.items()}
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


def direction(pieces: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
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


class BuiltinVerifier:
    """Says how likely evidence supports a claim, from words and token embeddings; of contradictions words alone say.

    Attributes:
        name, digest: stored with the claims.
        encoder: what reads the texts.
        layer: that of embeddings: it reads no claim and evidence together.
        evidence_words: how much of all packed chunks a claim is put beside.
        calibration: None, since its probabilities are of even odds over several data sets, and of no service.
    """

    name: Final = "builtin"
    layer: Final = "embeddings"
    evidence_words: Final = NEAREST_WORDS
    calibration: Final = None

    def __init__(self, encoder: TokenEncoder, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.encoder = encoder
        self._cache = PairCache(cache_bytes)

    @classmethod
    def load(cls) -> Self:
        """With the encoder that the models extra installs. Raises: MissingExtraError without the extra."""
        return cls(TokenEncoder.load())

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        said = f"{self.encoder.digest} {BIAS} {sorted(WEIGHTS.items())} {NEAREST_WORDS}"
        return hashlib.blake2b(said.encode(), digest_size=6).hexdigest()

    def nearness(self, pairs: Sequence[Pair]) -> list[float]:
        """How near each answer is to its question, (question, answer) by (question, answer): `TokenEncoder.cosines`."""
        return self.encoder.cosines(pairs)

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """(support, 0) of each (claim, evidence): a probability at even odds. Every distinct pair is read once, and not
        again while it is in the cache; evidence without text supports nothing."""
        import numpy as np

        keys = [pair_key(*pair) for pair in pairs]
        said = {key: self._cache.get(key) for key in keys}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if said[key] is None}
        weights = np.array([WEIGHTS[name] for name in FEATURES])
        odds = self.features(list(missing.values())) @ weights + BIAS
        supports = (1 / (1 + np.exp(-odds))).tolist()
        fresh = {
            key: (support if pair[1].strip() else 0.0,)
            for (key, pair), support in zip(missing.items(), supports, strict=True)
        }
        self._cache.put(fresh)
        return [((fresh.get(key) or said[key] or (0.0,))[0], 0.0) for key in keys]

    def features(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Of each (claim, evidence) the values that `FEATURES` names: `(n, 9)`, each in [-1, 1]."""
        import numpy as np

        pairs = [(readable(claim), readable(evidence)) for claim, evidence in pairs]
        rows: list[list[float]] = []
        for start in range(0, len(pairs), _AT_ONCE):
            chosen = pairs[start : start + _AT_ONCE]
            near = [self._near(*pair) for pair in chosen]
            texts = dict.fromkeys(
                text for (claim, _), parts in zip(chosen, near, strict=True) for text in (claim, *parts)
            )
            vectors = dict(zip(texts, self.encoder.encode(list(texts)), strict=True))
            rows += [
                [*_by_words(*pair), *_by_tokens(vectors[pair[0]], [vectors[part] for part in parts])]
                for pair, parts in zip(chosen, near, strict=True)
            ]
        return np.array(rows, dtype=np.float64).reshape(len(pairs), len(FEATURES))

    def _near(self, claim: str, evidence: str) -> list[str]:
        return self.nearest(claim, evidence, NEAREST_WORDS)

    def nearest(self, claim: str, evidence: str, words: int) -> list[str]:
        """The sentences of the evidence that are read token by token: about so many words, those nearest to the claim
        by words, in pieces that the encoder reads whole."""
        read = sentences(gather(claim, [evidence], limit=words))
        return list(dict.fromkeys(piece for sentence in read for piece in self.encoder.pieces(sentence.text)))


def _by_words(claim: str, evidence: str) -> list[float]:
    """The first six features."""
    statement = Statement.read(Claim(text=claim, start=0, end=len(claim)))
    read = Evidence.read("", evidence)
    ((_, by_chunk),) = Lexical([read]).judge([statement])
    found = measure(statement, Ground([read.reading]))
    against = max((each.contradiction for each in by_chunk), default=0.0)
    said, known = _bigrams(claim), set(_bigrams(evidence))
    bigrams = sum(each in known for each in said) / max(1, len(said))
    return [against, found.unseen, found.pairs, found.unstated, 1.0 - found.lacking, bigrams]


def _bigrams(text: str) -> list[tuple[str, str]]:
    return list(pairwise(_WORD.findall(text.casefold())))


def _by_tokens(claim: NDArray[np.float32], evidence: Iterable[NDArray[np.float32]]) -> list[float]:
    """The last three features; 0 without evidence."""
    import numpy as np

    tokens = list(evidence)
    if not tokens or not len(claim):
        return [0.0, 0.0, 0.0]
    nearest = (claim @ np.concatenate(tokens).T).max(axis=1)
    return [float(nearest.mean()), float(nearest.min()), float(np.quantile(nearest, 0.25))]
