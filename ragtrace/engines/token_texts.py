"""Finds an answer's tokens among those of a server, of which only the texts are known, and unites what it cut apart.

Servers write the same token in many ways: `Ġthe`, `▁the`, ` the`, or `the` without its space; a part of a character as
`\N{REPLACEMENT CHARACTER}`, as `<0xE2>` or as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ragtrace.errors import ModelError

__all__ = ["GivenText", "ScoredToken", "answer_tokens", "joined", "may_say", "united"]

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
        found = _found(given.text, text, end, run)
        if found is None:
            break
        places += [*[(found[1], end)] * len(run), found]
        end, run = found[0], []
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
