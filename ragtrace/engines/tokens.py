"""Tokens of a text with their offsets into it, baselines that a tokenizer offers, and an answer's tokens at a server.

Of a server's tokens only the texts are known, and servers write the same token in many ways: `Ġthe`, `▁the`, ` the`, or
`the` without its space; a part of a character as `�`, as `<0xE2>` or as nothing. Tokens are counted by a model's own
tokenizer where it is on this machine; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from ragtrace.errors import ModelError

__all__ = [
    "MARKS",
    "Baseline",
    "GivenText",
    "ScoredToken",
    "Side",
    "Token",
    "answer_tokens",
    "baseline_id",
    "check_side",
    "counting",
    "cut",
    "framed_tokens",
    "joined",
    "may_say",
    "pair_tokens",
    "readable",
    "text_tokens",
    "united",
]

Baseline: TypeAlias = Literal["unk", "mask", "pad", "zero"]
Side: TypeAlias = Literal["query", "document"]
_NAMED: Final = ("unk", "mask", "pad")
_OTHER_TOKENS: Final = "the model reads other tokens than its tokenizer gives for the text, so they have no place in it"

MARKS: Final[dict[Side, str]] = {"query": "\ue000", "document": "\ue001"}
"""Signs for private use, which no text has; see `framed_tokens`."""

_Encoded: TypeAlias = tuple[str, int | None, tuple[int, int]]
"""A token, the number of its text (None for a special one), and its offsets."""
_Text: TypeAlias = tuple[Side, str, str]
"""The side of a pair that it is, the prompt in front, and the text."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text[start:end]` is where it stands in the query or document. Special tokens and prompts have no place.

    part: `query` or `document`, `prompt` for an instruction that the retriever puts in front, else `special`.
    """

    text: str
    start: int
    end: int
    part: Literal["query", "document", "prompt", "special"]


def check_side(of: str) -> None:
    """Raises: ModelError for a side of a pair that there is not."""
    if of not in get_args(Side):
        raise ModelError(f"no side {of!r} to attribute to; give one of {', '.join(get_args(Side))}")


def readable(text: str) -> str:
    """`text` with "?" in place of lone surrogates, which tokenizers refuse; of the same length."""
    return text.encode("utf-8", "replace").decode()


def cut(tokenizer: Any, text: str, room: int) -> list[str]:
    """Pieces of a text that have at most `room` tokens each."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    starts = range(0, max(1, len(offsets)), max(1, room))
    if len(starts) == 1:
        return [text]
    ends = [offsets[min(start + room, len(offsets)) - 1][1] for start in starts]
    return [text[offsets[start][0] : end] for start, end in zip(starts, ends, strict=True)]


def text_tokens(tokenizer: Any, ids: Sequence[int], prompt: str, text: str, part: Side) -> tuple[Token, ...]:
    """The tokens of one text behind its prompt, as the model was given them: `ids`.

    Raises: ModelError when the tokenizer does not say where a token stands, or reads the text in another way.
    """
    return tuple(_token_at(found, [(part, prompt, text)]) for found in _encoded(tokenizer, ids, prompt + text))


def pair_tokens(tokenizer: Any, ids: Sequence[int], prompt: str, query: str, document: str) -> tuple[Token, ...]:
    """The tokens of a pair, as a cross-encoder was given it; the prompt stands before the query.

    Raises: as `text_tokens`.
    """
    sides: list[_Text] = [("query", prompt, query), ("document", "", document)]
    return tuple(_token_at(found, sides) for found in _encoded(tokenizer, ids, prompt + query, document))


def framed_tokens(
    tokenizer: Any, ids: Sequence[int], framed: Sequence[int], texts: Mapping[Side, str]
) -> tuple[Token, ...]:
    """The tokens of texts that a chat template stands around; its own are special.

    framed: what the model is given for `MARKS` in the place of the texts. Raises: as `text_tokens`.
    """
    whole = _decoded(tokenizer, ids)
    encoded = tokenizer(
        whole,
        add_special_tokens=False,
        return_offsets_mapping=True,
        truncation=True,
        max_length=len(ids),
        verbose=False,
    )
    frame = re.split(f"([{''.join(MARKS.values())}])", _decoded(tokenizer, framed))
    places = _framed(whole, frame, texts)
    if list(encoded["input_ids"]) != list(ids) or places is None:
        raise ModelError(_OTHER_TOKENS)
    found = zip(tokenizer.convert_ids_to_tokens(list(ids)), encoded["offset_mapping"], strict=True)
    return tuple(_within(name, place, places, texts) for name, place in found)


def baseline_id(tokenizer: Any, baseline: Baseline, name: str) -> int | None:
    """The token that stands for "nothing known"; None for `zero`, which is no token.

    Raises: ModelError for a token that the model does not have, with those that it has.
    """
    if baseline not in get_args(Baseline):
        raise ModelError(f"no baseline {baseline!r}; give one of {', '.join(get_args(Baseline))}")
    ids = {known: getattr(tokenizer, f"{known}_token_id", None) for known in _NAMED}
    if baseline != "zero" and ids[baseline] is None:
        others = [known for known, number in ids.items() if number is not None] + ["zero"]
        raise ModelError(f"model {name!r} has no {baseline} token; give baseline {' or '.join(map(repr, others))}")
    return ids.get(baseline)


def _encoded(tokenizer: Any, ids: Sequence[int], *texts: str) -> list[_Encoded]:
    """The tokens with their offsets, and which of the texts they are of."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError("the tokenizer does not say where its tokens stand; load the model with a fast tokenizer")
    batch = [[text] for text in texts]  # by itself an empty second text is taken for none
    encoded = tokenizer(*batch, return_offsets_mapping=True, truncation=True, max_length=len(ids), verbose=False)
    if list(encoded["input_ids"][0]) != list(ids):
        raise ModelError(_OTHER_TOKENS)
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    return list(zip(tokens, encoded.sequence_ids(0), encoded["offset_mapping"][0], strict=True))


def _token_at(encoded: _Encoded, texts: Sequence[_Text]) -> Token:
    """A token with its place in its text, the prompt in front not counted; one across the prompt's end is the text's.

    A space that is a token by itself may have no length; its place is the character that it stands before.
    """
    name, side, (start, end) = encoded
    if side is None:
        return Token(name, 0, 0, "special")
    part, prompt, text = texts[side]
    if prompt and end <= len(prompt):
        return Token(name, 0, 0, "prompt")
    start, end = max(0, start - len(prompt)), end - len(prompt)
    if start == end:
        start, end = max(0, min(start, len(text) - 1)), min(start + 1, len(text))
    return Token(name, start, end, part)


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _framed(whole: str, frame: Sequence[str], texts: Mapping[Side, str]) -> dict[Side, tuple[int, int, int]] | None:
    """Of each text its beginning and end in the whole, and how many of its first characters the template leaves out.

    The template may trim the texts, and the last one may be cut at its end; None for any other difference.
    """
    sides: dict[str, Side] = {mark: side for side, mark in MARKS.items()}
    order = [sides[mark] for mark in frame[1::2]]
    places: dict[Side, tuple[int, int, int]] = {}
    at = 0
    for before, side, after in zip(frame[::2], order, frame[2::2], strict=False):
        text, start = texts.get(side, ""), at + len(before)
        if side is order[-1]:
            at = len(whole) - len(after)
        else:
            at = start + len(text if whole.startswith(text, start) else text.strip())
        read = whole[start:at]
        left_out = 0 if text.startswith(read) else len(text) - len(text.lstrip())
        if not (whole.startswith(before, start - len(before)) and text.startswith(read, left_out)):
            return None
        places[side] = (start, at, left_out)
    return places if whole.endswith(frame[-1]) and sorted(order) == sorted(texts) else None


def _within(
    name: str, place: tuple[int, int], places: Mapping[Side, tuple[int, int, int]], texts: Mapping[Side, str]
) -> Token:
    """The token at a place of the whole; one across a text's border is the text's."""
    for side, (start, end, left_out) in places.items():
        if place[0] < end and place[1] > start:
            own = (max(place[0], start) - start + left_out, min(place[1], end) - start + left_out)
            return _token_at((name, 0, own), [(side, "", texts[side])])
    return Token(name, 0, 0, "special")


Place: TypeAlias = tuple[int, int]
_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
_BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_UNK: Final = ("<unk>", "[UNK]")
_LONGEST_UNK: Final = 64
_ACROSS: Final = 64  # characters of a prompt that may stand in a token of the answer
_PRINTABLE: Final = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES: Final = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(0x100 + at): byte for at, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))
}  # the signs in which a byte-level vocabulary writes bytes


class ScoredToken(NamedTuple):
    """A token: `answer[start:end]` is what it says, `text` how the server writes it."""

    text: str
    start: int
    end: int
    log_probability: float


@dataclass(frozen=True, slots=True)
class GivenText:
    """What is scored: `text[:prompt]` is the prompt, `text[shift:]` the answer; between them is at most a space.

    In a chat the answer is a turn of its own: what the server puts before it is unknown, prompt and shift are 0.
    """

    text: str
    prompt: int
    shift: int

    @property
    def border(self) -> int:
        """Where the prompt ends, white space aside."""
        return len(self.text[: self.prompt].rstrip())

    def is_own(self, start: int, end: int) -> bool:
        """Whether a token at this place is the answer's: not white space that the prompt ends with."""
        return end > self.prompt and (start >= self.prompt or bool(self.text[self.prompt : end].strip()))


def joined(prompt: str, answer: str) -> GivenText:
    """The prompt and the answer as one text, with a space between them where neither has one."""
    gap = " " if prompt and not prompt[-1].isspace() and not answer[0].isspace() else ""
    return GivenText(prompt + gap + answer, len(prompt), len(prompt) + len(gap))


def answer_tokens(texts: Sequence[str], given: GivenText) -> list[Place]:
    """Where the last tokens stand in the answer, from its first token to its last.

    A token across the border of prompt and answer is the answer's, white space at the prompt's end is not. Parts of one
    character share its place.

    Raises: ModelError when the tokens do not say what was sent.
    """
    for read in (_as_they_are, _without_marks, _from_bytes):
        places = _placed([read(text) for text in texts], given)
        if places is not None:
            return [(max(0, start - given.shift), max(0, stop - given.shift)) for start, stop in places]
    raise ModelError(
        f"the server's tokens end with {''.join(texts[-8:])!r} and not with the answer; its tokenizer changes the "
        "text, so that its tokens cannot be placed"
    )


def may_say(texts: Sequence[str], prompt: str) -> bool:
    """Whether the tokens are long enough together to say the prompt, each unknown one as long as it may be."""
    longest = sum(_reach(text) if _is_unknown(text) else len(text.strip()) for text in texts)
    return longest >= len("".join(prompt.split())) - _ACROSS


def united(
    answer: str, rows: Sequence[Sequence[ScoredToken]], places: Sequence[Place] | None
) -> tuple[list[Place], list[list[float]]]:
    """Places of the columns, and one log-probability per column for each row.

    Rows of the same tokens stay as they are. Where tokens differ - at the border with the prompt, say - those between
    two cuts that all rows share become one column, with the sum of their log-probabilities. places: the columns of
    earlier rows, which stay as they are.

    Raises: ModelError for a row whose tokens cannot be united to the columns of earlier ones.
    """
    own = [[(token.start, token.end) for token in row] for row in rows]
    target = list(places) if places is not None else own[0] if own else []
    if all(each == target for each in own):
        return target, [[token.log_probability for token in row] for row in rows]
    cuts = [_cuts(answer, each) for each in own]
    if places is None:
        shared = sorted(set(cuts[0]).intersection(*cuts[1:]))
        target = _columns(answer, shared)
    else:
        shared = _cuts(answer, target)
        if len(set(shared)) < len(shared) or not all(set(shared) <= set(each) for each in cuts):
            raise ModelError(
                "the server cuts the answer into other tokens than behind the earlier prompts; score all prompts in "
                "one call, or end them alike"
            )
    return target, [_summed(row, each, shared) for row, each in zip(rows, cuts, strict=True)]


def _summed(row: Sequence[ScoredToken], cuts: Sequence[int], shared: Sequence[int]) -> list[float]:
    sums = [0.0] * len(shared)
    column = 0
    for token, cut in zip(row, cuts, strict=True):
        while column < len(shared) - 1 and cut > shared[column]:
            column += 1
        sums[column] += token.log_probability
    return sums


def _cuts(answer: str, places: Iterable[Place]) -> list[int]:
    """How many visible characters of the answer each token and those before it cover."""
    return [len("".join(answer[:end].split())) for _, end in places]


def _columns(answer: str, cuts: Sequence[int]) -> list[Place]:
    """The place of what stands between two cuts, white space around it left out."""
    visible = [at for at, sign in enumerate(answer) if not sign.isspace()]
    edges = [0, *cuts]
    return [
        (visible[first], visible[last - 1] + 1) if last > first else (0, 0)
        for first, last in zip(edges, cuts, strict=False)
    ]


def _placed(texts: Sequence[str], given: GivenText) -> list[Place] | None:
    """The places of the answer's tokens in the text; None when the tokens do not say it."""
    places: list[Place] = []
    run: list[str] = []  # unknown tokens between what was placed last and the next one
    end, border = len(given.text), given.border
    whole = False
    for text in reversed(texts):
        if end <= border and not run:
            break
        if _is_unknown(text):
            run.append(text)
            continue
        located = _found(given.text, text, end, run)
        if located is None:
            break
        places += [*[(located[1], end)] * len(run), located]
        end, run = located[0], []
    else:
        whole = True
    if run and border == 0 and (whole or _may_be(given.text[:end], run)):
        places += [(0, end)] * len(run)
        end = 0
    if given.text[border:end].strip():
        return None
    return [place for place in reversed(places) if given.is_own(*place)]


def _found(text: str, token: str, end: int, run: Sequence[str]) -> Place | None:
    """Where a token stands that ends at `end`, or before what a run of unknown tokens stands for."""
    reach = sum(map(_reach, run))
    before = [stop for stop in range(end - 1, max(-1, end - reach - 1), -1) if _may_be(text[stop:end], run)]
    stops = [*before, end] if any(run) else [end, *before]
    if before and token and not token.strip():  # white space that is not in the text stands before all of the run
        stops = [stop for stop in stops if text.endswith(token, 0, stop)] or before[-1:]
    for stop in stops:
        place = _ending(text, token, stop)
        if place is not None:
            return place
    return None


def _reach(unknown: str) -> int:
    """How many characters an unknown token may stand for."""
    return _LONGEST_UNK if unknown in _UNK else 4


def _may_be(text: str, run: Sequence[str]) -> bool:
    """Whether unknown tokens may say this: parts of characters that are more than one byte, or a word of their own."""
    return bool(text.strip()) and (not text.isascii() or any(each in _UNK for each in run))


def _ending(text: str, token: str, end: int) -> Place | None:
    """Where a token stands that ends at `end`, white space aside; it may begin before the text does."""
    if text.endswith(token, 0, end):
        return end - len(token), end
    if end and token.endswith(text[:end]):
        return 0, end
    core = token.strip()
    if not core:
        return end, end
    stop = len(text[:end].rstrip())
    if text.endswith(token, 0, stop):
        return stop - len(token), stop
    if text.endswith(core, 0, stop):
        return stop - len(core), stop
    rest = text[:stop].lstrip()
    return (0, stop) if rest and core.endswith(rest) else None


def _is_unknown(text: str) -> bool:
    return not text or _UNKNOWN in text or text in _UNK


def _as_they_are(text: str) -> str:
    return text


def _without_marks(text: str) -> str:
    """A text without the marks of SentencePiece."""
    return _BYTE.sub(_one_byte, text.replace("▁", " "))


def _one_byte(found: re.Match[str]) -> str:
    return bytes.fromhex(found[1]).decode("ascii", "replace")


def _from_bytes(text: str) -> str:
    """What the signs of a byte-level vocabulary stand for."""
    if not all(sign in _BYTES for sign in text):
        return text
    return bytes(_BYTES[sign] for sign in text).decode("utf-8", "replace")


_FILE: Final = "tokenizer.json"


@lru_cache(32)
def counting(model: str) -> Callable[[str], int] | None:
    """What counts a text's tokens by the tokenizer of a model's folder, or of its name in the hub's cache; None where
    neither has one, or `ragtrace[models]` is not installed."""
    file = _file(model)
    if file is None or find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception:  # its own errors have no common type; a file that is no tokenizer counts nothing
        return None
    return lambda text: len(tokenizer.encode(text).ids)


def _file(model: str) -> Path | None:
    """The tokenizer's file; a name that a sender made up is read as a name of the hub's alone."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, _FILE)
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None
