"""Citations: the marks in an answer, the packed chunks that they name, and how well the claims are cited."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from ragtrace.prompts import parsed
from ragtrace.types import Candidate, Citation, Claim, PackedChunk

__all__ = [
    "SUPPORTED",
    "citation_coverage",
    "citation_precision",
    "citation_recall",
    "dangling_citations",
    "find_citations",
    "first_number",
    "without_citations",
]

SUPPORTED: Final = 0.5  # support from which a claim counts as supported: a probability, both being alike likely
MOST: Final = 50  # chunks that one range may name: [1-999] names no more
_NUMBERS: Final = r"\d{1,3}(?:\s*[-–]\s*\d{1,3})?(?:\s*[,;&]\s*\d{1,3}(?:\s*[-–]\s*\d{1,3})?)*"
_KINDS: Final = r"(?:documents?|docs?|sources?|passages?|chunks?|refs?|references?|citations?|cite|id)"
_LINK: Final = r"\((?P<link>[^()\s]{1,2000})(?:\s+\"[^\"\n]*\")?\)"
_MARK: Final = re.compile(
    rf"""\[\^(?P<note>[^\]\s]{{1,40}})\](?!:)
    | \[\#?(?P<plain>{_NUMBERS})(?:[†:][^\]\n]{{0,200}})?\](?:{_LINK})?
    | [(\[](?:see\s+)?{_KINDS}\.?\s*:?\s*[#\[]?
        (?P<named>{_NUMBERS})\]?(?:,?\s+pp?\.\s*\d{{1,4}}(?:[-–]\d{{1,4}})?)?[)\]]
    | 【(?P<wide>\d{{1,3}})(?:[†:][^】\n]{{0,200}})?】
    | \[(?P<text>[^\[\]\n]{{1,200}})\]{_LINK.replace("<link>", "<target>")}
    | \[(?P<id>[^\[\]\n]{{2,256}})\]
    | \((?P<round>(?:{_KINDS}\s*:\s*)?[^()\[\]\s]{{2,128}})\)
    | \[\s*(?P<quoted>"[^"\n]{{1,256}}"(?:\s*,\s*"[^"\n]{{1,256}}"){{0,50}})\s*\]
    | <?(?P<url>https?://[^\s<>()\[\]"'】]{{3,2000}})>?""",
    re.IGNORECASE | re.VERBOSE,
)
_KIND: Final = re.compile(rf"{_KINDS}\s*[:#]?\s*", re.IGNORECASE)
_PAGES: Final = re.compile(r",?\s*pp?\.\s*\d{1,4}(?:[-–]\d{1,4})?$")
_NOTE: Final = re.compile(r"^[ \t]*\[\^([^\]\s]{1,40})\]:[ \t]*(.*)$", re.MULTILINE)
_QUOTES: Final = " \t\r\n\"'`“”"
_ZERO: Final = re.compile(r"(?<![\w\])])\[0\](?!\()")  # and not the first of a list, as in code
_WHOLE: Final = re.compile(r"(?<![\w.,:/-])\d{1,3}(?![\w/-]|[.,:]\d)")
_URL_KEYS: Final = ("url", "uri", "link", "source_url", "source", "href")


def find_citations(
    answer: str,
    packed: Sequence[PackedChunk],
    candidates: Sequence[Candidate] = (),
    *,
    first: int | None = None,
) -> tuple[Citation, ...]:
    """Citations in `answer` in order: [1], [1,3-5], (Document 5), 【3†source】, [^2], [chunk-id], links and URLs.

    A number names the chunk at that place of the prompt, `first` being the number of the first one (`first_number`);
    where that is not known, 1, or 0 where the answer cites [0] and no number that would be too high then. A footnote
    names what its text cites, else the place of its number. An address names the packed chunks whose id, document,
    source or metadata it is; candidates: where those of the packed chunks are told. A mark that names no packed chunk
    is dangling: its `chunk_id` is None. Brackets around anything but a number or a known name are no citation, nor is
    an address where those of the packed chunks are unknown, or one that a packed chunk itself holds.
    """
    names = _Names(packed, candidates, answer, first)
    return tuple(
        Citation(marker=match.group(), chunk_id=target, start=match.start(), end=match.end())
        for match in _MARK.finditer(answer)
        for target in names.targets(match)
    )


def first_number(template: str | None) -> int | None:
    """The number that the prompt itself gives its first chunk, 0 or 1; None where it does not number them so.

    template: the prompt with placeholders for its chunks (`ragtrace.prompts`). It numbers them from n on where n, n +
    1, ... stand before the first, second, ... chunk and behind the one before.
    """
    if not template:
        return None
    texts, places = parsed(template)
    before = [{int(number) for number in _WHOLE.findall(text)} for text in texts[: len(places)]]
    found = [first for first in (0, 1) if before and all(place + first in each for place, each in enumerate(before))]
    return found[0] if len(found) == 1 else None


def without_citations(text: str, marks: Sequence[Citation] = (), start: int = 0) -> str:
    """`text` with its citation marks blanked out, every other character in its place.

    marks: citations of the answer that names chunks by their ids; start: where `text` begins in that answer.
    """
    for mark in marks:
        if mark.start is not None and mark.end is not None:
            first, last = max(0, mark.start - start), min(len(text), mark.end - start)
            text = text[:first] + " " * (last - first) + text[last:]
    return _without_marks(text)


@lru_cache(maxsize=1024)  # an answer's sentences are asked about several times
def _without_marks(text: str) -> str:
    return _MARK.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    """A link keeps its text, and words in brackets stay."""
    if match.group("id") or match.group("round") or match.group("quoted"):
        return match.group()
    if words := match.group("text"):
        return f" {words}".ljust(len(match.group()))
    return " " * len(match.group())


class _Names:
    """What the marks of one answer may name."""

    def __init__(
        self, packed: Sequence[PackedChunk], candidates: Sequence[Candidate], answer: str, first: int | None
    ) -> None:
        self._first = _counted_from(answer, len(packed)) if first is None else first
        self._by_place = {str(place): chunk.chunk_id for place, chunk in enumerate(packed, start=self._first)}
        self._named: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._packed = packed
        known = {candidate.chunk_id: candidate for candidate in candidates}
        for chunk in packed:
            self._named[_key(chunk.chunk_id)][chunk.chunk_id] = None
            if candidate := known.get(chunk.chunk_id):
                for name in _also_called(candidate):
                    self._named[_key(name)][chunk.chunk_id] = None
        self._has_urls = any(name.startswith(("http://", "https://")) for name in self._named)
        self._notes = dict(_NOTE.findall(answer))

    def targets(self, match: re.Match[str]) -> list[str | None]:
        """The chunks that a mark names, None for one that is not there; nothing for what is no citation."""
        group = match.groupdict()
        if group["note"]:
            return self._note(group["note"])
        if group["link"] and (found := self._named.get(_key(group["link"]))):
            return list(found)
        if numbers := group["plain"] or group["named"] or group["wide"]:
            return [self._by_place.get(number) for number in _numbers(numbers) if number != "0" or not self._first]
        if address := group["target"] or group["url"]:
            return self._address(address.rstrip(".,;:!?"))
        return self._listed(group["id"] or group["round"] or group["quoted"] or "")

    def _note(self, name: str) -> list[str | None]:
        text = self._notes.get(name, "").strip()
        marks = [_MARK.fullmatch(f"[{text}]") or None, *_MARK.finditer(text)]  # "Document 3" needs no brackets here
        found = [target for mark in marks if mark and not mark.group("note") for target in self.targets(mark)]
        found = list(dict.fromkeys(found))
        if not found:
            found = list(self._named.get(_key(text), ()))
        return found or [self._by_place.get(name)]

    def _address(self, address: str) -> list[str | None]:
        if found := self._named.get(_key(address)):
            return list(found)
        held = any(address in (chunk.text or "") for chunk in self._packed)
        return [None] if self._has_urls and not held and address.startswith(("http://", "https://")) else []

    def _listed(self, text: str) -> list[str | None]:
        """[a, b] names two chunks where both are known, and so does ["a", "b"], as answers in JSON write it."""
        parts = [text] if _key(text) in self._named else re.split(r"[,;]", _PAGES.sub("", text))
        known = [self._called(part.strip(_QUOTES)) for part in parts]
        return [chunk_id for found in known if found for chunk_id in found] if all(known) else []

    def _called(self, name: str) -> Collection[str]:
        """The chunks of a name, with or without the kind of it before ("source: leaflet")."""
        kind = _KIND.match(name)
        return self._named.get(_key(name)) or (self._named.get(_key(name[kind.end() :])) if kind else None) or ()


def _counted_from(answer: str, count: int) -> int:
    """The number of the first chunk as the answer's own marks have it."""
    numbers = {int(found) for mark in _MARK.finditer(answer) for found in _numbers(mark.group("plain") or "")}
    return 0 if _ZERO.search(answer) and max(numbers, default=0) < count else 1


def _also_called(candidate: Candidate) -> Iterator[str]:
    yield from (name for name in (candidate.doc_id, candidate.source) if name)
    for key in _URL_KEYS:
        value = candidate.metadata.get(key)
        if isinstance(value, str) and value:
            yield value


def _key(name: str) -> str:
    """Addresses are compared without their fragment and closing slash; names as written."""
    stripped = name.strip()
    if not stripped.startswith(("http://", "https://")):
        return stripped
    return stripped.partition("#")[0].rstrip("/")


def citation_coverage(claims: Sequence[Claim]) -> float | None:
    """CC = |{s factual: s is cited}| / |{s factual}|, in [0, 1]; None without factual claims.

    A dangling citation cites nothing. Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval
    Coverage Metrics", §3.
    """
    factual = [claim for claim in claims if claim.factual]
    cited = [claim for claim in factual if any(citation.chunk_id for citation in claim.citations)]
    return len(cited) / len(factual) if factual else None


def citation_precision(claims: Sequence[Claim], supports: Sequence[dict[str, float]]) -> float | None:
    """Share of the resolved citations whose chunk supports its claim; None without citations.

    supports: for each claim, chunk id -> support in [0, 1].
    """
    marks = [
        support.get(citation.chunk_id, 0.0) >= SUPPORTED
        for claim, support in zip(claims, supports, strict=True)
        if claim.factual
        for citation in claim.citations
        if citation.chunk_id
    ]
    return sum(marks) / len(marks) if marks else None


def citation_recall(claims: Sequence[Claim], supports: Sequence[dict[str, float]]) -> float | None:
    """Share of the supported factual claims that cite a chunk which supports them; None without supported claims."""
    supported = [
        any(citation.chunk_id and support.get(citation.chunk_id, 0.0) >= SUPPORTED for citation in claim.citations)
        for claim, support in zip(claims, supports, strict=True)
        if claim.factual and (claim.support or 0.0) >= SUPPORTED
    ]
    return sum(supported) / len(supported) if supported else None


def dangling_citations(claims: Sequence[Claim]) -> float | None:
    """How many citations of the answer name no packed chunk; None where the answer cites nothing at all."""
    marks = [citation for claim in claims for citation in claim.citations]
    return float(sum(1 for citation in marks if citation.chunk_id is None)) if marks else None


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for part in re.split(r"\s*[,;&]\s*", text) if text else ():
        first, _, last = (piece.strip() for piece in part.replace("–", "-").partition("-"))
        span = range(int(first), int(last or first) + 1)
        found += [str(number) for number in span[:MOST]]
    return found
