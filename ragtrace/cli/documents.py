"""Documents: what each command prints with `--json`, as types, from which docs/reference/cli.schema.json is written.

Most are the records and reports of other packages. What a command adds to one of these, or puts together itself, is
said here. A number that is not finite is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict, get_type_hints

import msgspec

from ragtrace.analyze.alignment_report import AlignmentReport
from ragtrace.analyze.exposure_experiment import ExperimentReport
from ragtrace.analyze.exposure_report import ExposureReport
from ragtrace.analyze.grade_attribution import EntityAlignmentReport
from ragtrace.analyze.retrieval_grading import GradeReport, RequestGrades
from ragtrace.explanations import Explanation
from ragtrace.export.findings import RequestDocument
from ragtrace.gate.replay import ReplaySummary
from ragtrace.gate.replay_diff import ReplayDiff
from ragtrace.gate.types import GateReport, SelfCheck
from ragtrace.receive.imports import Imported
from ragtrace.store import (
    DeletionRecord,
    Drawing,
    Drawn,
    Erased,
    Inspected,
    JobRow,
    PageJudgment,
    RequestRow,
    SearchState,
    ServiceCalibration,
    Space,
    Swept,
)
from ragtrace.triage import PageAnswers, Report
from ragtrace.triage.labels import DrawingRates, LabelAgreement
from ragtrace.types import Diagnosis, Gold, IndexProbe, ProbedChunk

__all__ = ["DOCUMENTS", "schema"]


def _fields(name: str, fields: Mapping[str, Any]) -> Any:
    """An object that has these fields."""
    return TypedDict(name, dict(fields))  # type: ignore[operator]  # made from what stands elsewhere


def _with(name: str, kind: type, more: Mapping[str, Any], without: str = "") -> Any:
    """What a dataclass holds, and what the command says beside it."""
    return _fields(name, {key: hint for key, hint in get_type_hints(kind).items() if key != without} | dict(more))


def _list(kind: Any) -> Any:
    return list[kind]


_ROWS: Final = dict[str, int]
_TIME: Final = str  # ISO 8601 in UTC
_CALIBRATION: Final = _with("Calibration", ServiceCalibration, {"promise": str})
_DRAWING: Final = _with("DrawingWithoutRates", Drawing, {}, without="rates")
_DRAWN: Final = _fields("DrawnLabels", {"drawing": _DRAWING, "requests": list[Drawn]})
_RELEASE: Final = _fields(
    "ReleaseRow",
    {
        **dict.fromkeys(("service", "component", "version"), str),
        **{"at": _TIME, "recorded_at": _TIME | None, "first_seen_at": _TIME | None},
    },
)
_SOURCE: Final = _fields(
    "SourceRow",
    {
        **{"service": str, "source": str, "reported_at": _TIME, "documents": int | None},
        **{"usual_documents": float | None, "change": float | None, "is_unusual": bool},
        **{"newest_at": _TIME | None, "newest_age_seconds": float | None, "delay_seconds": float | None},
    },
)
_DRIFT: Final = _fields(
    "DriftRow",
    {
        **dict.fromkeys(("service", "from", "to"), str),
        **dict.fromkeys(("chunks", "unchanged", "rewritten", "renumbered"), int),
        **{"rewritten_ids": list[str], "renumbered_ids": _list(_fields("Renumbered", {"from": str, "to": str}))},
    },
)
_GATE_RUN: Final = _fields(
    "GateRunRow",
    {
        **{"run_id": str, "at": _TIME, "service": str | None, "decision": str, "first_broken": str | None},
        **{"baseline": str, "candidate": str, "versions": list[str]},
    },
)
_CITING: Final = _fields(
    "CitingRow", {"service": str, "cites": bool | None, "since": _TIME | None, "answers": int, "cited": int}
)
_TOTALS: Final = _fields(
    "TotalsRow", {"service": str, "series": int, "segments": int, "requests": int, "has_place": bool}
)
_PROBED: Final = _with("ProbedCandidate", ProbedChunk, {"is_candidate": bool})
_OF_REQUEST: Final = _fields("ProbedRequest", {"probe": IndexProbe, "diagnosis": Diagnosis, "chunks": _list(_PROBED)})
_FOUND: Final = _fields("Found", {"chunk_id": str, **dict.fromkeys(("rank", "deep_rank", "exact_rank"), int | None)})
_OF_QUERY: Final = _fields(
    "ProbedQuery", {"query": str, "depth": int, "found": _list(_FOUND), "chunks": list[ProbedChunk]}
)
_FITTED: Final = _fields("Fitted", {"id": str, "file": str, "ece": float | None, "claims": int})
_JUDGED: Final = _fields(
    "JudgeReport",
    {"model": str, "weights": str, "calibration": dict[str, Any] | None, "held_out": list[dict[str, Any]]},
)
_ERASED: Final = _with(
    "Proof",
    Erased,
    {"dry_run": bool, "subject": dict[str, Any], "store": str, "at": _TIME, "left": _ROWS | None},
)
_SPACE: Final = _fields("Compacted", {"before": Space, "after": Space, "clean": bool | None})
_DOCTOR: Final = _fields(
    "Installation",
    {
        **{"ok": bool, "ragtrace": str, "python": str, "executable": str, "torch_device": str | None},
        **{"settings": dict[str, Any], "extras": list[dict[str, Any]], "store": dict[str, Any]},
        "tools": list[dict[str, Any]],
    },
)

DOCUMENTS: Final[dict[str, Any]] = {
    "align report": AlignmentReport,
    "analyze": _fields("Analyzed", dict.fromkeys(("done", "failed", "lost", "held"), int)),
    "build": _fields("Built", {"stored": int, "waiting_bytes": int}),
    "calibrate": (_CALIBRATION, _fields("Calibrations", {"calibrations": _list(_CALIBRATION)})),
    "citing list": _fields("CitingList", {"services": _list(_CITING)}),
    "db audit": _fields("Audit", {"audit": _list(_with("DeletionRow", DeletionRecord, {"at": _TIME}))}),
    "db check": _with("Checked", Inspected, {"revision": str | None}),
    "db erase": _ERASED,
    "db prune": _fields("Prunable", {"dry_run": bool, "rows": _ROWS, "busy": int}),
    "db search": SearchState,
    "db upgrade": _fields("Revision", {"revision": str}),
    "db vacuum": _with("Vacuumed", Swept, {"dry_run": bool, "space": _SPACE | None}),
    "demo": _fields("Demo", {"scenarios": list[dict[str, Any]]}),
    "doctor": _DOCTOR,
    "drift": _fields("DriftList", {"drift": _list(_DRIFT)}),
    "explain": Explanation,
    "exposure experiment": ExperimentReport,
    "exposure report": ExposureReport,
    "gate compare": ReplayDiff,
    "gate label": GateReport,
    "gate list": _fields("GateRuns", {"runs": _list(_GATE_RUN)}),
    "gate live": GateReport,
    "gate run": GateReport,
    "gate selfcheck": SelfCheck,
    "gate show": GateReport,
    "gold list": _fields("GoldList", {"golds": list[Gold]}),
    "grade entities": EntityAlignmentReport,
    "grade report": GradeReport,
    "grade request": RequestGrades,
    "import": dict[str, Imported],
    "jobs list": list[JobRow],
    "label agreement": LabelAgreement,
    "label draw": _DRAWN,
    "label extend": _DRAWN,
    "label import": _fields("ImportedLabels", {"labels": int, "drawn": int, "unknown": list[str]}),
    "label list": _fields(
        "Drawings", {"drawings": _list(_with("DrawingRow", Drawing, {"drawn": int, "labelers": _ROWS}))}
    ),
    "label rates": _with("Rates", DrawingRates, {"pages": _fields("JudgedPages", {"right": int, "judged": int})}),
    "probe": (_OF_REQUEST, _OF_QUERY),
    "release list": _fields("Releases", {"releases": _list(_RELEASE)}),
    "replay": ReplaySummary,
    "show": RequestDocument | list[RequestRow],
    "source list": _fields("Sources", {"sources": _list(_SOURCE)}),
    "totals forget": _fields(
        "Forgotten",
        {
            **{"dry_run": bool, "services": list[str], "segment": str | None, "store": str, "at": _TIME},
            **{"rows": _ROWS, "left": list[str]},
        },
    ),
    "totals list": _fields("TotalsList", {"services": _list(_TOTALS)}),
    "triage alert": _fields("Reports", {"reports": list[Report]}),
    "triage judge": (
        _fields("Judged", {"judgment": PageJudgment, "former": PageJudgment | None}),
        _fields("Judgments", {"judgments": list[PageJudgment], "pages": PageAnswers | None}),
    ),
    "triage request": Report,
    "triage segment": Report,
    "verifier calibrate": _FITTED,
    "verifier evaluate": _JUDGED,
    "verifier train": _JUDGED,
}
"""By command, without `ragtrace`; several where its options decide."""


def schema() -> dict[str, Any]:
    """A JSON Schema whose properties are the commands: each tells what the command prints."""
    kinds = {command: kind if isinstance(kind, tuple) else (kind,) for command, kind in DOCUMENTS.items()}
    names = [(command, place) for command, found in kinds.items() for place in range(len(found))]
    named = [_fields(f"{command} {place}", {"printed": kinds[command][place]}) for command, place in names]
    shapes, parts = msgspec.json.schema_components(named, ref_template="#/$defs/{name}")
    found: dict[str, list[Any]] = {command: [] for command in kinds}
    for (command, _), shape in zip(names, shapes, strict=True):
        found[command].append(parts.pop(shape["$ref"].rpartition("/")[2])["properties"]["printed"])
    printed = {command: each[0] if len(each) == 1 else {"anyOf": each} for command, each in found.items()}
    return {"type": "object", "properties": _nullable(printed), "$defs": _nullable(parts)}


def _nullable(part: Any) -> Any:
    """The same with null for each number: that of one that is not finite."""
    if isinstance(part, list):
        return [_nullable(each) for each in part]
    if not isinstance(part, dict):
        return part
    changed = {key: _nullable(value) for key, value in part.items()}
    return {**changed, "type": ["number", "null"]} if changed.get("type") == "number" else changed
