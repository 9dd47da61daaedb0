"""What a verifier reads: windows over long evidence, and the marks of words that claim and evidence share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

from ragtrace.coverage.text import sentences, stem
from ragtrace.engines.tokens import cut

__all__ = ["MARKS", "encode_pairs", "overlap_marks", "windows"]

MARKS: Final = 4
"""Token types of a verifier that sees shared words: evidence, claim, a claim's word that the evidence lacks, evidence's
word that the claim has."""
_EVIDENCE, _CLAIM, _MISSING, _SHARED = range(MARKS)
_CLAIM_SHARE: Final = 2  # a claim has at most one half of the tokens


def windows(tokenizer: Any, claim: str, evidence: str, max_tokens: int) -> list[str]:
    """Pieces of `evidence` that fit beside the claim: whole sentences, each window beginning in the middle of the last.

    A sentence that does not fit is cut. Evidence that fits as a whole is one window.
    """
    extra = tokenizer.num_special_tokens_to_add(pair=True)
    room = max_tokens - extra - min(_length(tokenizer, claim), _longest_claim(tokenizer, max_tokens))
    if _length(tokenizer, evidence) <= room:
        return [evidence]
    return list(_windows(tokenizer, evidence, room))


def _windows(tokenizer: Any, evidence: str, room: int) -> Iterator[str]:
    pieces = [piece for each in sentences(evidence) for piece in cut(tokenizer, each.text, room)] or [evidence]
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
    tokenizer: Any, pairs: Sequence[tuple[str, str]], max_tokens: int, *, marked: bool
) -> list[dict[str, list[int]]]:
    """The features of each (claim, evidence), unpadded: the evidence first, as premise, then the claim."""
    longest = _longest_claim(tokenizer, max_tokens)
    claims = [_shortened(tokenizer, claim, longest) for claim, _ in pairs]
    encoded = tokenizer(
        [evidence for _, evidence in pairs],
        claims,
        truncation="only_first",
        max_length=max_tokens,
        return_offsets_mapping=marked,
        verbose=False,
    )
    features = []
    for number, (claim, (_, evidence)) in enumerate(zip(claims, pairs, strict=True)):
        found = {name: list(encoded[name][number]) for name in encoded if name != "offset_mapping"}
        if marked:
            found["token_type_ids"] = overlap_marks(
                (evidence, claim),
                encoded.sequence_ids(number),
                encoded.word_ids(number),
                encoded["offset_mapping"][number],
            )
        features.append(found)
    return features


def overlap_marks(
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


def _longest_claim(tokenizer: Any, max_tokens: int) -> int:
    """How many tokens of a claim are read."""
    return (max_tokens - int(tokenizer.num_special_tokens_to_add(pair=True))) // _CLAIM_SHARE


def _shortened(tokenizer: Any, claim: str, limit: int) -> str:
    if len(claim) <= limit:  # a token has at least one character
        return claim
    offsets = tokenizer(claim, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return claim if len(offsets) <= limit else claim[: offsets[limit - 1][1]]
