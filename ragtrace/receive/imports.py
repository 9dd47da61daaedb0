"""What `ragtrace import` takes: records, exported spans, evaluation sets; each becomes records and gold sets."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from ragtrace.config import Config
from ragtrace.errors import RecordError
from ragtrace.receive.assembly import assemble
from ragtrace.receive.evaluations import read_evaluations
from ragtrace.receive.exports import read_export
from ragtrace.receive.spans import ReceivedSpan
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Store
from ragtrace.types import Gold, RequestRecord, decode_record, replace

__all__ = ["KINDS", "Imported", "Kind", "import_file", "kind_of", "read_kind"]

Kind: TypeAlias = Literal["records", "spans", "evaluations"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_PAGE: Final = 100
_BEGINNING: Final = 65_536  # bytes by which a file's kind is told
_MARKS: Final = (b"resourceSpans", b"spanContext", b"record_attributes")
_PROTOBUF: Final = b"\n"  # the tag of the first field, with which every request of OTLP begins
_GIVE: Final = "give JSON, JSON lines, CSV or TSV in UTF-8, or OTLP as protobuf"


@dataclass(slots=True)
class Imported:
    """What came of a file. `rejected`: why spans or traces were left out, one sentence each.

    Of an evaluation set: `read`, what was read -> the columns that it was read from; `left_out`, the columns that hold
    something and were not read; `warnings`: what may be missing, one sentence each.
    """

    kind: Kind
    requests: int = 0
    golds: int = 0
    rejected: list[str] = field(default_factory=list)
    read: dict[str, list[str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_kind(value: str | None) -> Kind | None:
    """A kind as it is named on the command line; None for None. Raises: RecordError."""
    for kind in KINDS:
        if value == kind:
            return kind
    if value is None:
        return None
    raise RecordError(f"--kind is {value!r}; it can be {', '.join(KINDS)}")


def kind_of(path: Path) -> Kind:
    """What a file holds, told by its name and its beginning. Raises: RecordError where that is nothing; OSError."""
    with path.open("rb") as opened:
        beginning = opened.read(_BEGINNING).removeprefix(BOM_UTF8)
    if not beginning.strip():
        raise RecordError(f"{path} is empty; {_GIVE}")
    if any(mark in beginning for mark in _MARKS):
        return "spans"
    if path.suffix.lower() in (".csv", ".tsv"):
        return "evaluations"
    if b'"request_id"' in beginning and b'"stages"' in beginning:
        return "records"
    if b"\0" not in beginning and beginning.lstrip()[:1] in (b"{", b"["):
        return "evaluations"
    if beginning[:1] == _PROTOBUF:
        return "spans"
    raise RecordError(f"{path} holds neither records, spans nor an evaluation set; {_GIVE}")


def import_file(
    store: Store,
    path: Path,
    config: Config,
    *,
    kind: Kind | None = None,
    service: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """Store what a file holds; importing it again, or a copy of it, changes nothing.

    A row of an evaluation set has the time of its file, so it is known by its content alone.

    config: its capture policy says what of content is kept; `cites`, where it is set, whether the answers are meant to
    cite their sources, whatever the file says. service: of evaluation sets, and in place of the senders' own.
    columns: of evaluation sets.

    Raises: RecordError naming file and place; what stands before that place is stored. OSError, StoreError.
    """
    imported = Imported(kind or kind_of(path))
    golds: list[Gold] = []
    policy = ContentPolicy(config)
    found = _requests(path, imported, golds, service, config.service, columns)
    while page := list(islice(found, _PAGE)):
        known = store.get_records(each.request_id for each in page) if imported.kind == "evaluations" else {}
        new = [record for record in page if record.request_id not in known]
        if config.cites is not None:
            new = [replace(each, cites=config.cites) for each in new]
        store.write([policy.finish(each) for each in new])
        imported.requests += len(page)
    imported.golds = store.put_gold(golds) if golds else 0
    return imported


def _requests(
    path: Path,
    imported: Imported,
    golds: list[Gold],
    service: str | None,
    usual: str,
    columns: Mapping[str, str] | None,
) -> Iterator[RequestRecord]:
    if imported.kind == "evaluations":
        evaluations = read_evaluations(path, service or usual, columns)
        for row in evaluations:
            if row.gold is not None:
                golds.append(row.gold)
            yield row.record
        imported.read, imported.left_out = evaluations.read, evaluations.left_out
        imported.warnings += evaluations.warnings
        return
    found = _records(path) if imported.kind == "records" else _traces(path, imported)
    for record in found:
        yield record if service is None else replace(record, service=service)


def _records(path: Path) -> Iterator[RequestRecord]:
    with path.open("rb") as opened:
        for number, line in enumerate(opened, 1):
            if line.strip():
                try:
                    yield decode_record(line)
                except RecordError as error:
                    raise RecordError(f"{path}, line {number}: {error}") from None


def _traces(path: Path, imported: Imported) -> Iterator[RequestRecord]:
    received = read_export(path)
    imported.rejected += received.rejected
    traces: defaultdict[str, list[ReceivedSpan]] = defaultdict(list)
    for each in received.spans:
        traces[each.trace_id].append(each)
    for trace_id, spans in traces.items():
        record = assemble(spans)
        if record is None:
            names = ", ".join(dict.fromkeys(span.name for span in spans[:3]))
            imported.rejected.append(f"trace {trace_id}: none of its {len(spans)} spans is a stage of RAG ({names})")
        else:
            yield record
