"""Pairs of texts in a role: how a classifier reads them, and which of its outputs says what.

A pair is (short, long): claim and evidence, question and chunk, or question and answer. Windows go over the long text;
of the short one at most half of the tokens are read. What models said of pairs is kept by a hash of both texts: no text
stays, and the memory is bounded.

Which output means that evidence supports a claim, and which that it contradicts it; or that a chunk or an answer is
relevant to a question, is told by a classifier's config and its family.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

from ragtrace.coverage.text import sentences, stem
from ragtrace.engines.tokens import cut
from ragtrace.errors import ConfigurationError, ModelError

__all__ = [
    "CACHE_BYTES",
    "MARKS",
    "ROLES",
    "Outputs",
    "PairCache",
    "PairForm",
    "Place",
    "Role",
    "encode_pairs",
    "located",
    "pair_key",
    "read_form",
    "read_outputs",
    "windows",
    "without_special_tokens",
]

Place: TypeAlias = tuple[Literal["short", "long", "separator", "special"], int, int]
"""Whose a token is, and where it stands in its text; separators and special tokens stand nowhere."""

MARKS: Final = 4
"""Token types of a verifier that sees shared words: evidence, claim, a claim's word that the evidence lacks, evidence's
word that the claim has."""
_EVIDENCE, _CLAIM, _MISSING, _SHARED = range(MARKS)
_SHORT_SHARE: Final = 2  # the short text has at most one half of the tokens


@dataclass(frozen=True, slots=True)
class PairForm:
    """How a classifier reads a pair.

    long_first: the evidence before the claim; else the question before the chunk or the answer.
    joint: what stands between the two in one text; None: they are a pair to the tokenizer.
    """

    long_first: bool = True
    joint: str | None = None

    def joined(self, short: str, long: str) -> str:
        """One text of both, for a form with a joint."""
        first, second = self.ordered(short, long)
        return f"{first}{self.joint}{second}"

    def ordered(self, short: str, long: str) -> tuple[str, str]:
        """Both texts in the order in which they are read."""
        return (long, short) if self.long_first else (short, long)

    def tokens_beside(self, tokenizer: Any) -> int:
        """How many tokens of a pair belong to neither of its texts."""
        if self.joint is None:
            return int(tokenizer.num_special_tokens_to_add(pair=True))
        return int(tokenizer.num_special_tokens_to_add(pair=False)) + _length(tokenizer, self.joint)


EVIDENCE_FIRST: Final = PairForm()


def without_special_tokens(tokenizer: Any, text: str) -> str:
    """`text` with a space in place of what would be read as a special token: `</s>`, `[SEP]`, HTML's `<s>`.

    A text that ends its own side of the pair would be judged as if the rest were the other text.
    """
    for token in tokenizer.all_special_tokens:
        if token in text:
            text = text.replace(token, " ")
    return text


def windows(tokenizer: Any, short: str, long: str, max_tokens: int, form: PairForm = EVIDENCE_FIRST) -> list[str]:
    """Pieces of `long` that fit beside `short`: whole sentences, each window beginning in the middle of the last.

    A sentence that does not fit is cut. A text that fits as a whole is one window.
    """
    longest = _longest_short(tokenizer, max_tokens, form)
    room = max_tokens - form.tokens_beside(tokenizer) - min(_length(tokenizer, short), longest)
    if _length(tokenizer, long) <= room:
        return [long]
    return list(_windows(tokenizer, long, room))


def _windows(tokenizer: Any, text: str, room: int) -> Iterator[str]:
    pieces = [piece for each in sentences(text) for piece in cut(tokenizer, each.text, room)] or [text]
    lengths = [_length(tokenizer, piece) for piece in pieces]
    start = 0
    while True:
        end, used = start, 0
        while end < len(pieces) and (end == start or used + lengths[end] <= room):
            used += lengths[end]
            end += 1
        yield " ".join(pieces[start:end])
        if end >= len(pieces):
            return
        start = max(start + 1, (start + end + 1) // 2)


def _length(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def encode_pairs(
    tokenizer: Any,
    pairs: Sequence[tuple[str, str]],
    max_tokens: int,
    *,
    marked: bool = False,
    form: PairForm = EVIDENCE_FIRST,
) -> list[dict[str, list[int]]]:
    """The features of each (short, long), unpadded. What is too long is cut at the end of the long text.

    marked: with token types that tell words that both have, for a form without a joint.
    """
    longest = _longest_short(tokenizer, max_tokens, form)
    pairs = [(_shortened(tokenizer, short, longest), long) for short, long in pairs]
    if form.joint is not None:
        return [_encoded_as_one(tokenizer, short, long, max_tokens, form) for short, long in pairs]
    encoded = tokenizer(
        [form.ordered(*pair)[0] for pair in pairs],
        [form.ordered(*pair)[1] for pair in pairs],
        truncation="only_first" if form.long_first else "only_second",
        max_length=max_tokens,
        return_offsets_mapping=marked,
        verbose=False,
    )
    features = []
    for number, (short, long) in enumerate(pairs):
        found = {name: list(encoded[name][number]) for name in encoded if name != "offset_mapping"}
        if marked:
            found["token_type_ids"] = _overlap_marks(
                (long, short),
                encoded.sequence_ids(number),
                encoded.word_ids(number),
                encoded["offset_mapping"][number],
            )
        features.append(found)
    return features


def located(
    tokenizer: Any, pair: tuple[str, str], max_tokens: int, form: PairForm = EVIDENCE_FIRST
) -> tuple[dict[str, list[int]], list[Place]]:
    """The features of a (short, long) as `encode_pairs` gives them, and the place of each token in its text.

    What stands between the two texts is the separator, what the model has besides is special.
    """
    (features,) = encode_pairs(tokenizer, [pair], max_tokens, form=form)
    short = _shortened(tokenizer, pair[0], _longest_short(tokenizer, max_tokens, form))
    first, second = form.ordered(short, pair[1])
    limits: dict[str, Any] = {"truncation": True, "max_length": len(features["input_ids"])}
    if form.joint is None:
        limits["truncation"] = "only_first" if form.long_first else "only_second"
    texts = [form.joined(short, pair[1])] if form.joint is not None else [first, second]
    encoded = tokenizer(*([text] for text in texts), **limits, return_offsets_mapping=True, verbose=False)
    sides, offsets = encoded.sequence_ids(0), encoded["offset_mapping"][0]
    if form.joint is not None:
        own: list[Place] = [
            ("special", 0, 0) if side is None else _joined_place(form, texts[0], (first, second), offset)
            for side, offset in zip(sides, offsets, strict=True)
        ]
        return features, own
    known = [at for at, side in enumerate(sides) if side is not None]
    between = range(known[0], known[-1]) if known else range(0)
    names: tuple[Literal["short", "long"], ...] = ("long", "short") if form.long_first else ("short", "long")
    apart: list[Place] = [
        (names[side], *offset) if side is not None else ("separator" if at in between else "special", 0, 0)
        for at, (side, offset) in enumerate(zip(sides, offsets, strict=True))
    ]
    return features, apart


def _joined_place(form: PairForm, text: str, parts: tuple[str, str], offset: tuple[int, int]) -> Place:
    """The place of a token of a text that is both: white space in front of it is not its own."""
    start, end = offset
    start += len(text[start:end]) - len(text[start:end].lstrip())
    behind = len(parts[0]) + len(form.joint or "")
    names: tuple[Literal["short", "long"], ...] = ("long", "short") if form.long_first else ("short", "long")
    if start >= behind:
        return names[1], start - behind, end - behind
    return (names[0], start, end) if end <= len(parts[0]) else ("separator", 0, 0)


def _encoded_as_one(tokenizer: Any, short: str, long: str, max_tokens: int, form: PairForm) -> dict[str, list[int]]:
    while True:
        encoded = tokenizer(form.joined(short, long), verbose=False)
        excess = len(encoded["input_ids"]) - max_tokens
        if excess <= 0 or not long:
            return {name: list(encoded[name])[:max_tokens] for name in encoded}
        long = _shortened(tokenizer, long, max(0, _length(tokenizer, long) - excess))


def _overlap_marks(
    texts: tuple[str, str],
    sides: Sequence[int | None],
    word_ids: Sequence[int | None],
    offsets: Sequence[tuple[int, int]],
) -> list[int]:
    """The token type of each token of a pair: on which side it stands, and whether its word's stem is on the other."""
    keys = list(zip(sides, word_ids, strict=True))
    stems: list[str] = []
    for (side, word), run in groupby(range(len(keys)), key=lambda place: keys[place]):
        places = list(run)
        text = texts[side or 0]
        said = text[offsets[places[0]][0] : offsets[places[-1]][1]] if word is not None else ""
        stems += [_stem(said)] * len(places)
    said_by = [{each for each, side in zip(stems, sides, strict=True) if side == which and each} for which in (0, 1)]
    return [_mark(side, word, said_by) for side, word in zip(sides, stems, strict=True)]


def _mark(side: int | None, word: str, said_by: Sequence[set[str]]) -> int:
    if side == 1:
        return _MISSING if word and word not in said_by[0] else _CLAIM
    return _SHARED if side == 0 and word and word in said_by[1] else _EVIDENCE


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    """Nothing for punctuation, which is shared by all."""
    return stem(word) if any(map(str.isalnum, word)) else ""


def _longest_short(tokenizer: Any, max_tokens: int, form: PairForm) -> int:
    """How many tokens of the short text are read."""
    return (max_tokens - form.tokens_beside(tokenizer)) // _SHORT_SHARE


def _shortened(tokenizer: Any, text: str, limit: int) -> str:
    if len(text) <= limit:  # a token has at least one character
        return text
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return text if len(offsets) <= limit else text[: offsets[limit - 1][1]] if limit else ""


CACHE_BYTES: Final = 16 << 20
ENTRY_BYTES: Final = 320  # of a key, its numbers and its place, measured with three numbers

Shares: TypeAlias = tuple[float, ...]


def pair_key(first: str, second: str, kind: str = "") -> bytes:
    """The key of a pair: 16 bytes that follow from both texts and from what is asked of them."""
    digest = blake2b(digest_size=16)
    for text in (kind, first, second):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.digest()


class PairCache:
    """Numbers by key, for many threads; what was asked for longest ago goes first.

    max_bytes: what its entries may take; 0: nothing is kept. Raises: ConfigurationError below 0.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        if max_bytes < 0:
            raise ConfigurationError.of("cache_bytes", max_bytes, "0 or more")
        self.capacity = max_bytes // ENTRY_BYTES
        self._entries: OrderedDict[bytes, Shares] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Shares | None:
        """The numbers of a key, which is now the last to go; None where there are none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, said: Mapping[bytes, Shares]) -> None:
        """Keep these, in place of what was asked for longest ago."""
        with self._lock:
            self._entries.update(said)
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)


Role: TypeAlias = Literal["entails", "relevant", "answers"]
"""What is asked of a pair: whether evidence entails a claim, a chunk is relevant to a question, an answer fits it."""
ROLES: Final[tuple[Role, ...]] = ("entails", "relevant", "answers")

_AGAINST: Final = re.compile(r"contradict|refut|conflict")
_NOT: Final = re.compile(r"\bnot?\b|\bnon|\bun|\bin(?=consisten|correct|accura)|hallucinat|neutral|unknown|\bnei\b")
_FOR: Final = re.compile(r"entail|support|consisten|ground|faithful|attribut|factual|correct|accura")
_IRRELEVANT: Final = re.compile(r"\b(?:not?|non|false|off|part(?:ly|ial\w*))\b|\birrelevant|\bun(?=relat|answer)")
_RELEVANT: Final = re.compile(r"\b(?:yes|true|relevant|related|on topic|answer(?:s|ed|able)?)\b")
_UNNAMED: Final = re.compile(r"label \d+")
_REMEDIES: Final[dict[Role, str]] = {
    "entails": "(entailment, neutral, contradiction; supported, unsupported; or one label for a score)",
    **dict.fromkeys(("relevant", "answers"), "(relevant, irrelevant; yes, no; or one label for a score)"),
}
_MINICHECK: Final = re.compile(r"minicheck", re.IGNORECASE)
_MINICHECK_LABELS: Final = ("unsupported", "supported")  # as its authors document LABEL_0 and LABEL_1
_CRAG_JOINT: Final = " [SEP] "  # no token of T5, but the text that CRAG's evaluator was trained with
_CRAG_SCALE: Final = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The places of a classifier's outputs. `support` None: one output, a score.

    support: the output that says yes: supported, relevant, answered.
    scale: the scores that mean 0 and 1, what lies between in proportion; None: the score's sigmoid.
    """

    support: int | None
    contradiction: int | None = None
    scale: tuple[float, float] | None = None


def read_outputs(name: str, config: Any, labels: Sequence[str] | None = None, *, role: Role = "entails") -> Outputs:
    """Read the outputs' meaning from a model's config, or from `labels` in the order of the outputs.

    Raises: ModelError where it cannot be told: outputs without names, two that say yes, none that does.
    """
    count = int(config.num_labels)
    if count == 1:
        return Outputs(None, scale=_CRAG_SCALE if _is_crag(config, role) else None)
    if getattr(config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise ModelError(
            f"model {name!r} has {count} outputs that are no classes ({config.problem_type}); give a model with "
            "classes, or with one score"
        )
    names = _names(name, config.id2label, labels, count)
    if role == "entails" and all(map(_is_unnamed, names)) and _is_minicheck(name, config):
        names = _MINICHECK_LABELS
    meaning: Callable[[str], str | None] = _support if role == "entails" else _relevance
    read = [None if _is_unnamed(each) else meaning(_plain(each)) for each in names]
    if read.count("support") != 1 or read.count("contradiction") > 1 or None in read:
        raise ModelError(
            f"what the outputs of model {name!r} mean for the role {role!r} cannot be told from {list(names)}; name "
            f"them in id2label of its config.json {_REMEDIES[role]}, or give labels"
        )
    against = read.index("contradiction") if "contradiction" in read else None
    return Outputs(read.index("support"), against)


def read_form(name: str, config: Any, tokenizer: Any, role: Role) -> PairForm:
    """How a model of this family reads pairs in a role: as pairs of its tokenizer, but for two families.

    MiniCheck (by its name) reads document and claim as one text, joined by the end-of-sequence token. CRAG's evaluator
    (a T5 with one score) reads `question [SEP] passage`.
    """
    if role == "entails":
        return PairForm(joint=tokenizer.eos_token if _is_minicheck(name, config) else None)
    return PairForm(long_first=False, joint=_CRAG_JOINT if _is_crag(config, role) else None)


def _is_minicheck(name: str, config: Any) -> bool:
    return int(config.num_labels) == len(_MINICHECK_LABELS) and _MINICHECK.search(name) is not None


def _is_crag(config: Any, role: Role) -> bool:
    return role != "entails" and int(config.num_labels) == 1 and getattr(config, "model_type", None) == "t5"


def _names(name: str, given: Mapping[Any, str] | None, labels: Sequence[str] | None, count: int) -> Sequence[str]:
    if labels is not None:
        if len(labels) != count:
            raise ModelError(f"model {name!r} has {count} outputs, not {len(labels)}; give a label for each")
        return labels
    by_place = {int(place): str(label) for place, label in (given or {}).items()}
    return [by_place.get(place, f"LABEL_{place}") for place in range(count)]


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", label.casefold()).strip()


def _is_unnamed(label: str) -> bool:
    return _UNNAMED.fullmatch(_plain(label)) is not None


def _support(label: str) -> str | None:
    """`support`, `contradiction` or `other`; None for a name that tells nothing."""
    if _AGAINST.search(label) and not _NOT.search(label):
        return "contradiction"
    if _NOT.search(label):
        return "other"
    return "support" if _FOR.search(label) else None


def _relevance(label: str) -> str | None:
    """`support` for yes, `other` for no; None for a name that tells nothing."""
    if _IRRELEVANT.search(label):
        return "other"
    return "support" if _RELEVANT.search(label) else None
