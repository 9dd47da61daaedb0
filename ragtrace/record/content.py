"""The last step of a record, in the background: the capture policy, hashes of its texts, the prompt's template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ragtrace.config import Config
from ragtrace.plausible_values import settle, settle_moment
from ragtrace.privacy import Capture, CaptureMode
from ragtrace.prompts import escaped
from ragtrace.record.coercion.recognition import cut_out, make_template, templated
from ragtrace.safe_text import plain_label, without_login
from ragtrace.types import (
    Addendum,
    Candidate,
    Citation,
    ErrorInfo,
    Facet,
    Feedback,
    GenerateRun,
    Generation,
    Item,
    Metadata,
    PackedChunk,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    StageRun,
    content_hash,
    replace,
    to_builtins,
)

if TYPE_CHECKING:
    from ragtrace.record._redaction import Redactor

__all__ = ["ContentPolicy", "packed_of", "scrub"]

_PLACEHOLDER: Final = re.compile(r"(\{chunk:[^{}]*\})")
_HIDDEN: Final = ("off", "hash")
_OWN: Final = "ragtrace.replay."  # begins the names of attributes that a replay sets


class ContentPolicy:
    """What of an item may be written: by field nothing, a hash, the redacted text, or the text. Times that cannot be
    are settled (`ragtrace.plausible_values`).

    Ids, ranks, scores, labels, versions and counts always may; of labels what commands a terminal, and the login of a
    source that is a URL, goes. `report` counts, as `(where, kind)`, each text that is
    dropped because the host's redactor failed.
    """

    def __init__(self, config: Config, report: Callable[[str, str], object] = lambda where, kind: None) -> None:
        self.capture = config.capture_content
        self.report = report
        self._redactor = self._redactor_of(config) if self.capture.redacts else None
        self._skew = config.clock_skew
        self._is_open = self.capture.chunks == self.capture.prompt == "full"
        self._is_full = self.capture.chunks == self.capture.metadata == "full"

    def _redactor_of(self, config: Config) -> Redactor:
        from ragtrace.record._redaction import Redactor

        return Redactor(
            config.redact, config.redact_patterns, config.redactor, lambda kind: self.report("redact", kind)
        )

    @property
    def keeps_chunks(self) -> bool:
        """Whether texts of chunks are kept as they are."""
        return self.capture.chunks == "full"

    @property
    def keeps_all(self) -> bool:
        """Whether all content is kept as it is."""
        return self.capture == Capture()

    @property
    def hides_chunks(self) -> bool:
        """Whether no text of a chunk is kept."""
        return self.capture.chunks in _HIDDEN

    def finish(self, item: Item, now: int | None = None) -> Item:
        """`item` as it may be written, with hashes. Finishing it again changes nothing.

        now: nanoseconds, where it was handed over at another time.
        """
        now = time_ns() if now is None else now
        if isinstance(item, RequestRecord):
            return self._record(settle(item, now, self._skew))
        if isinstance(item, Addendum):
            created_at = settle_moment(item.created_at, now, self._skew)
            item = replace(item, created_at=created_at, stages=templated(item.stages))
            packed = packed_of(item.stages)
            has_chunks = bool(packed) or not self.hides_chunks
            runs = [self.finish_run(run, packed) for run in item.stages]
            return replace(item, stages=tuple(runs if has_chunks else map(_without_prompt, runs)))
        return self._feedback(item) if isinstance(item, Feedback) else item

    def text(self, field: str, text: str | None) -> str | None:
        """What is kept of a text; None for nothing."""
        mode: CaptureMode = getattr(self.capture, field)
        if mode == "full" or text is None:
            return text
        return self._redact(text) if mode == "redacted" else None

    def value(self, field: str, value: Any) -> Any:
        """What is kept of a JSON value, whose texts, also its keys, are redacted; None for nothing."""
        mode: CaptureMode = getattr(self.capture, field)
        if mode == "full":
            return value
        return self._redactor.redact_value(value) if mode == "redacted" and self._redactor is not None else None

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """An exception's message may quote content."""
        return replace(error, message=self.message(error.message))

    def message(self, text: str) -> str:
        """What is kept of an exception's message."""
        return self.text("error", text) or ""

    def _redact(self, text: str) -> str | None:
        return text if self._redactor is None else self._redactor.redact(text)

    def _record(self, record: RequestRecord) -> RequestRecord:
        record = replace(record, stages=templated(record.stages, (record.query.original, record.query.rewritten)))
        packed = self.cut_out(record.stages)
        return replace(
            record,
            service=plain_label(record.service),
            segment=plain_label(record.segment),
            versions={plain_label(name): plain_label(version) for name, version in record.versions.items()},
            query=self._query(record.query),
            error=None if record.error is None else self.error(record.error),
            stages=tuple([self.finish_run(run, packed) for run in record.stages]),
            feedback=tuple([self._feedback(each) for each in record.feedback]),
            attributes=self._attributes(record.attributes),
        )

    def _attributes(self, attributes: Metadata) -> Metadata:
        """What is kept of the host's attributes; those of a replay are ids."""
        own = {name: value for name, value in attributes.items() if name.startswith(_OWN)}
        return {**(self.value("attributes", attributes) or {}), **own}

    def cut_out(self, runs: Sequence[StageRun]) -> list[PackedChunk]:
        """The chunks that leave the prompt: the packed ones; where no text of a chunk is kept, all candidates too."""
        packed = packed_of(runs)
        if self.hides_chunks and self.capture.prompt not in _HIDDEN:
            found = [candidate for run in runs if isinstance(run, RetrieveRun) for candidate in run.candidates]
            packed += [PackedChunk(chunk_id=each.chunk_id, position=each.rank, text=each.text) for each in found]
        return packed

    def _query(self, query: Query) -> Query:
        if self.capture.query == "full":
            return query
        original = self.text("query", query.original) or ""
        facets = query.facets if self.capture.query == "redacted" else ()
        kept = [self._facet(facet, original == query.original) for facet in facets]
        return replace(
            query,
            original=original,
            rewritten=self.text("query", query.rewritten),
            facets=tuple([facet for facet in kept if facet.value]),
        )

    def _facet(self, facet: Facet, is_placed: bool) -> Facet:
        aliases = [self._redact(alias) for alias in facet.aliases]
        return replace(
            facet,
            value=self._redact(facet.value) or "",
            aliases=tuple([alias for alias in aliases if alias]),
            start=facet.start if is_placed else None,
            end=facet.end if is_placed else None,
        )

    def _feedback(self, feedback: Feedback) -> Feedback:
        created_at = settle_moment(feedback.created_at, time_ns(), self._skew)
        return replace(feedback, created_at=created_at, comment=self.text("feedback", feedback.comment))

    def finish_run(self, run: StageRun, packed: list[PackedChunk]) -> StageRun:
        """A run as it may be written; `packed` are the chunks that its prompt may hold."""
        if run.error is not None:
            run = replace(run, error=self.error(run.error))
        if isinstance(run, RetrieveRun):
            candidates = self._candidates(run.candidates)
            return replace(run, candidates=candidates, query=self.text("query", run.query))
        if isinstance(run, PackRun):
            chunks = tuple([self._chunk(chunk) for chunk in run.packing.chunks])
            return replace(run, packing=replace(run.packing, chunks=chunks))
        if isinstance(run, GenerateRun):
            return replace(run, generation=self._generation(run.generation, packed))
        return run

    def _candidates(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        if not self._is_full:
            return tuple([self._candidate(candidate) for candidate in candidates])
        given = tuple(candidates)
        if None not in [each.content_hash for each in given] and all(map(_is_plain, {each.source for each in given})):
            return given  # hashed when they were read
        return tuple([_hashed(_from_its_source(candidate)) for candidate in given])

    def _candidate(self, candidate: Candidate) -> Candidate:
        kept: Candidate = self._chunk(_from_its_source(candidate))
        if self.capture.metadata == "full" or not kept.metadata:
            return kept
        return replace(kept, metadata=self.value("metadata", kept.metadata) or {})

    def _chunk(self, chunk: Any) -> Any:
        """A candidate or packed chunk; the hash is that of the text that is kept."""
        mode = self.capture.chunks
        if mode == "off":
            return replace(chunk, text=None, content_hash=None)
        if chunk.text is None or (mode == "full" and chunk.content_hash is not None):
            return chunk
        text = chunk.text if mode != "redacted" else self._redact(chunk.text)
        if text is None:
            return replace(chunk, text=None, content_hash=None)
        found = (chunk.content_hash if text == chunk.text else None) or content_hash(text)
        return replace(chunk, text=None if mode == "hash" else text, content_hash=found)

    def _generation(self, generation: Generation, packed: list[PackedChunk]) -> Generation:
        mode, answer, digest = self.capture.answer, generation.answer, generation.answer_hash
        if answer is not None:
            kept = self.text("answer", answer)
            digest = content_hash(answer if kept is None else kept) if mode == "hash" or kept is not None else None
        else:
            kept, digest = None, None if mode == "off" else digest
        template = generation.prompt_template
        if template is not None and not self._is_open:
            template = self._prompt(self._template(template, packed)) if self.capture.prompt not in _HIDDEN else None
        citations = generation.citations
        if mode != "full":
            citations = tuple([self._citation(each, answer, kept) for each in citations])
        return replace(generation, answer=kept, answer_hash=digest, prompt_template=template, citations=citations)

    def _template(self, prompt: str, packed: Sequence[PackedChunk]) -> str:
        """The prompt with `{chunk:ID}` where the chunks stand; where no text of theirs is kept, however they stand."""
        return cut_out(prompt, packed) if self.capture.chunks in _HIDDEN else make_template(prompt, packed, True)[0]

    def _prompt(self, template: str | None) -> str | None:
        """The template; its placeholders, which hold ids, stay."""
        if self.capture.prompt == "full" or template is None:
            return template
        parts = _PLACEHOLDER.split(template)
        kept = [part if place % 2 else self._redact(part) for place, part in enumerate(parts)]
        if None in kept:
            return None
        return "".join((part or "") if place % 2 else escaped(part or "") for place, part in enumerate(kept))

    def _citation(self, citation: Citation, answer: str | None, kept: str | None) -> Citation:
        """A marker without its answer says nothing; in an answer that was redacted it may have moved."""
        marker = self.text("answer", citation.marker) or ""
        if answer is None or kept in (None, answer) or citation.start is None or citation.end is None:
            return replace(citation, marker=marker)
        before, marked = self._redact(answer[: citation.start]), answer[citation.start : citation.end]
        start = None if before is None or not str(kept).startswith(before + marked) else len(before)
        return replace(citation, marker=marker, start=start, end=None if start is None else start + len(marked))


def _hashed(candidate: Candidate) -> Candidate:
    if candidate.text is None or candidate.content_hash is not None:
        return candidate
    return replace(candidate, content_hash=content_hash(candidate.text))


def _from_its_source(candidate: Candidate) -> Candidate:
    """The candidate, whose source is a label and tells no password."""
    if _is_plain(candidate.source):
        return candidate
    return replace(candidate, source=plain_label(without_login(candidate.source or "")))


def _is_plain(source: str | None) -> bool:
    return source is None or (source.isprintable() and "@" not in source)


def packed_of(runs: Sequence[StageRun]) -> list[PackedChunk]:
    """The packed chunks of all runs."""
    return [chunk for run in runs if isinstance(run, PackRun) for chunk in run.packing.chunks]


def _without_prompt(run: StageRun) -> StageRun:
    """Nobody here knows which of the prompt is chunks."""
    if not isinstance(run, GenerateRun):
        return run
    return replace(run, generation=replace(run.generation, prompt_template=None))


def scrub(item: Item) -> Item:
    """`item` with what UTF-8 cannot hold (lone surrogates of broken JSON) replaced by question marks."""
    return msgspec.convert(_scrubbed(to_builtins(item)), type(item))


_CLEAN: Final[dict[type, Callable[[Any], Any]]] = {
    str: lambda value: value.encode("utf-8", "replace").decode(),
    dict: lambda value: {_scrubbed(key): _scrubbed(item) for key, item in value.items()},
    list: lambda value: [_scrubbed(item) for item in value],
    tuple: lambda value: [_scrubbed(item) for item in value],
}


def _scrubbed(value: Any) -> Any:
    clean = _CLEAN.get(type(value))
    return value if clean is None else clean(value)
