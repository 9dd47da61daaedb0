"""The report of a demo run: diagnoses compared with the truth of the injection, averages per segment, one failed
request's path, and how to look further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ragtrace.demo._faults import Truth
from ragtrace.export import evidence_path
from ragtrace.registry.instruments import (
    ANSWER_COVERAGE,
    CITATION_COVERAGE,
    CONTRADICTION_RATE,
    EVIDENCE_RECALL,
    INSTRUMENTS,
    QUERY_COVERAGE,
    STAGES,
)
from ragtrace.types import Analysis, RequestRecord

__all__ = [
    "WIDTH",
    "DemoResult",
    "DiagnosisAccuracy",
    "FaultCase",
    "ScenarioResult",
    "SegmentResult",
    "report",
    "summarize",
]

UNTOUCHED: Final = "untouched"
_STAGES: Final = ("retrieval", "ranking", "generation", "citation")
WIDTH: Final = 100
_COLUMNS: Final = {
    QUERY_COVERAGE.id: "QC",
    EVIDENCE_RECALL.id: "EO",
    ANSWER_COVERAGE.id: "AC",
    CITATION_COVERAGE.id: "CC",
    CONTRADICTION_RATE.id: "con.",
}
_LEGEND: Final = Text(
    "QC query coverage, EO share of the needed evidence that is in the prompt, AC share of the claims\n"
    "that is supported, CC cited, con. contradicted; red: the average misses the objective",
    style="dim",
)
_SHORT: Final = {"generation": "generat.", "retrieval": "retriev.", "no_break_found": "no break"}
_TRUTH: Final = "true \\ found"
_GAP: Final = 4  # columns between two tables
_STAGE_NAMES: Final = tuple(stage.name for stage in STAGES)


def report(result: DemoResult) -> RenderableType:
    """The whole report, made for `WIDTH` columns."""
    parts: list[RenderableType] = [_intro(result), _LEGEND]
    for scenario in result.scenarios:
        parts += [Text(), _scenario_text(scenario)]
    parts += [Text(), _rule("Does the diagnosis name what the fault really did?"), _accuracy(result.scenarios)]
    parts += [Text(), _confusions(result.scenarios)]
    if result.example is not None:
        parts += [Text(), _rule("One failed request, from question to claim")]
        parts.append(evidence_path.render(result.example.record, result.example.oracle))
    parts += [Text(), _rule("Look further"), _further(result)]
    return Group(*parts)


def _intro(result: DemoResult) -> Text:
    requests = sum(scenario.requests for scenario in result.scenarios)
    return Text(
        f"{result.documents} policy wordings in {result.chunks:,} chunks; {requests} requests of service "
        f"{result.service} in {result.seconds:.0f} s",
        style="dim",
    )


def _rule(title: str) -> Rule:
    return Rule(Text(title, style="bold"), align="left", style="dim")


def _scenario_text(scenario: ScenarioResult) -> Group:
    table = _table()
    table.add_column("segment", width=11)
    for name in _COLUMNS.values():
        table.add_column(name, justify="right", width=4)
    table.add_column("broke first in", width=16)
    table.add_column("owner", width=21)
    table.add_column("suspected rollout", overflow="fold")
    for segment in scenario.segments:
        table.add_row(*_segment_lines(segment))
    title = Text(scenario.name, style="bold").append(f"  {scenario.brief}", style="dim not bold")
    return Group(Rule(title, align="left", style="dim"), table)


def _segment_lines(segment: SegmentResult) -> Iterator[Text]:
    yield Text(segment.segment)
    for metric in _COLUMNS:
        yield _value(metric, segment.metrics[metric])
    stage = segment.first_broken_stage
    if stage is None:
        yield Text(f"none of {segment.requests}", style="green")
    else:
        yield Text(f"{stage} {segment.stages[stage]}/{segment.requests}", style="red")
    yield Text(segment.owner or "")
    yield Text(segment.suspected_rollout or "", style="yellow")


def _value(metric: str, value: float | None) -> Text:
    if value is None:
        return Text("-", style="dim")
    objective = INSTRUMENTS[metric].objective
    return Text(f"{value:.2f}", style="" if objective is None or objective.met(value) else "red")


def _accuracy(scenarios: Iterable[ScenarioResult]) -> Table:
    table = _table()
    table.add_column("\nscenario", min_width=11)
    for name in ("requests", "affected", "untouched", "organic"):
        table.add_column(f"\n{name}", justify="right")
    for reference in ("oracle", "proxy"):
        table.add_column(f"{reference}:\nright stage", justify="right", min_width=12)
        table.add_column("\nfalse blame", justify="right", min_width=11)
    for scenario in scenarios:
        counts = (scenario.requests, scenario.oracle.affected, scenario.oracle.untouched, scenario.organic)
        shares = [
            _share(share)
            for found in (scenario.oracle, scenario.proxy)
            for share in (found.first_stage_accuracy, found.false_blame)
        ]
        table.add_row(scenario.name, *map(str, counts), *shares)
    return table


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _confusions(scenarios: Iterable[ScenarioResult]) -> RenderableType:
    """One table for each reference: beside each other where there is room, else below each other."""
    found = list(scenarios)
    oracle = _confusion([scenario.oracle for scenario in found])
    proxy = _confusion([scenario.proxy for scenario in found])
    titled = [
        Group(Text(title, style="bold"), table)
        for title, table in (("with the oracle evidence", oracle), ("with the proxy reference alone", proxy))
    ]
    if _width(oracle) + _width(proxy) + _GAP > WIDTH:
        return Group(titled[0], Text(), titled[1])
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_row(*titled)
    return grid


def _width(table: Table) -> int:
    """Characters of a table whose columns are as wide as their heads, the first one as its longest cell."""
    return len(_TRUTH) + sum(len(str(column.header)) + 1 for column in table.columns[1:])


def _confusion(agreements: Iterable[DiagnosisAccuracy]) -> Table:
    counts: dict[tuple[str, str], int] = {}
    for agreement in agreements:
        for key, count in agreement.confusion.items():
            counts[key] = counts.get(key, 0) + count
    found = [*_STAGE_NAMES, *sorted({name for _, name in counts} - set(_STAGE_NAMES))]
    found = [name for name in found if any(key[1] == name for key in counts)]
    table = _table()
    table.add_column(_TRUTH)
    for name in found:
        table.add_column(_SHORT.get(name, name), justify="right")
    for truth in (*_STAGE_NAMES, UNTOUCHED):
        if any(key[0] == truth for key in counts):
            table.add_row(truth, *(_count(counts.get((truth, name), 0), truth, name) for name in found))
    return table


def _count(count: int, truth: str, found: str) -> Text:
    right = truth == found or (truth == UNTOUCHED and found not in _STAGE_NAMES)
    return Text(str(count) if count else ".", style=("green" if right else "bold red") if count else "dim")


def _further(result: DemoResult) -> Table:
    request = result.example.record.request_id if result.example else "REQUEST_ID"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(Text("one request", style="dim"), Text(f"ragtrace show {request} --store {result.store_url}"))
    table.add_row(Text("all metrics", style="dim"), Text(f"ragtrace export --store {result.store_url}"))
    table.add_row(Text("the set-up", style="dim"), Text(f"ragtrace doctor --store {result.store_url}"))
    return table


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")


@dataclass(frozen=True, slots=True)
class FaultCase:
    """One request: what the fault did to it, and how it was diagnosed with either reference."""

    record: RequestRecord
    truth: Truth
    oracle: Analysis
    proxy: Analysis


@dataclass(frozen=True, slots=True)
class DiagnosisAccuracy:
    """Diagnosed stages against true ones. `confusion` counts (true stage or "untouched", diagnosed stage or verdict).

    Requests that lack oracle evidence in the healthy run too (`organic`) are left out.
    """

    confusion: Mapping[tuple[str, str], int]

    @property
    def affected(self) -> int:
        """Requests that the fault broke."""
        return sum(count for (truth, _), count in self.confusion.items() if truth != UNTOUCHED)

    @property
    def untouched(self) -> int:
        """Requests that the fault left as they were."""
        return sum(count for (truth, _), count in self.confusion.items() if truth == UNTOUCHED)

    @property
    def first_stage_accuracy(self) -> float | None:
        """Share of the affected requests whose diagnosed stage is the true one; None when none was affected."""
        right = sum(count for (truth, found), count in self.confusion.items() if truth == found)
        return right / self.affected if self.affected else None

    @property
    def false_blame(self) -> float | None:
        """Share of the untouched requests for which some stage was blamed; None when none was left untouched."""
        blamed = sum(
            count for (truth, found), count in self.confusion.items() if truth == UNTOUCHED and found in _STAGES
        )
        return blamed / self.untouched if self.untouched else None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the confusion table as {truth: {diagnosis: count}}."""
        table: dict[str, dict[str, int]] = {}
        for (truth, found), count in sorted(self.confusion.items()):
            table.setdefault(truth, {})[found] = count
        return {
            "first_stage_accuracy": self.first_stage_accuracy,
            "false_blame": self.false_blame,
            "confusion": table,
        }


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """One query class of one scenario: metric averages and where its requests broke first."""

    segment: str
    requests: int
    metrics: Mapping[str, float | None]
    stages: Mapping[str, int]
    owner: str | None
    suspected_rollout: str | None

    @property
    def first_broken_stage(self) -> str | None:
        """The stage that broke first in most of the broken requests; None when none broke."""
        return max(self.stages, key=lambda stage: self.stages[stage], default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "segment": self.segment,
            "requests": self.requests,
            **self.metrics,
            "first_broken_stage": self.first_broken_stage,
            "broken": dict(self.stages),
            "owner": self.owner,
            "suspected_rollout": self.suspected_rollout,
        }


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario over all questions."""

    name: str
    brief: str
    requests: int
    organic: int
    oracle: DiagnosisAccuracy
    proxy: DiagnosisAccuracy
    segments: tuple[SegmentResult, ...]
    example: FaultCase | None

    def to_json(self) -> dict[str, Any]:
        """Plain data: the oracle's figures at the top, the proxy's beside them."""
        return {
            "name": self.name,
            "requests": self.requests,
            "affected": self.oracle.affected,
            "untouched": self.oracle.untouched,
            "organic": self.organic,
            **self.oracle.to_json(),
            "proxy": self.proxy.to_json(),
            "segments": [segment.to_json() for segment in self.segments],
            "example": self.example.record.request_id if self.example else None,
        }


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A whole demo run."""

    store_url: str
    service: str
    documents: int
    chunks: int
    scenarios: tuple[ScenarioResult, ...]
    seconds: float

    @property
    def example(self) -> FaultCase | None:
        """The request whose path is shown: the selection scenario's where there is one, else the first one found."""
        found = {scenario.name: scenario.example for scenario in self.scenarios if scenario.example}
        return found.get("selection") or next(iter(found.values()), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "service": self.service,
            "store": self.store_url,
            "documents": self.documents,
            "chunks": self.chunks,
            "seconds": round(self.seconds, 1),
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
        }


def summarize(name: str, brief: str, cases: Sequence[FaultCase]) -> ScenarioResult:
    """Compare the diagnoses of one scenario's requests with the truth, and average its segments."""
    judged = [case for case in cases if not case.truth.organic]
    segments = sorted({case.record.segment for case in cases})
    return ScenarioResult(
        name=name,
        brief=brief,
        requests=len(cases),
        organic=len(cases) - len(judged),
        oracle=_agreement((case.truth, case.oracle) for case in judged),
        proxy=_agreement((case.truth, case.proxy) for case in judged),
        segments=tuple(
            _segment_result(segment, [case for case in cases if case.record.segment == segment]) for segment in segments
        ),
        example=_example(judged),
    )


def _agreement(pairs: Iterable[tuple[Truth, Analysis]]) -> DiagnosisAccuracy:
    return DiagnosisAccuracy(
        Counter(
            (truth.stage or UNTOUCHED, analysis.diagnosis.stage or analysis.diagnosis.verdict)
            for truth, analysis in pairs
        )
    )


def _segment_result(segment: str, cases: Sequence[FaultCase]) -> SegmentResult:
    found = [case.oracle.diagnosis for case in cases if case.oracle.diagnosis.stage]
    stages = Counter(diagnosis.stage for diagnosis in found if diagnosis.stage)
    first = max(stages, key=lambda stage: stages[stage], default=None)
    blamed = [diagnosis for diagnosis in found if diagnosis.stage == first]
    rollouts = Counter(diagnosis.suspected_rollout for diagnosis in blamed if diagnosis.suspected_rollout)
    return SegmentResult(
        segment=segment,
        requests=len(cases),
        metrics={metric: _mean(case.oracle.score(metric) for case in cases) for metric in _COLUMNS},
        stages={str(stage): count for stage, count in stages.items()},
        owner=blamed[0].owner if blamed else None,
        suspected_rollout=rollouts.most_common(1)[0][0] if rollouts else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def _example(cases: Sequence[FaultCase]) -> FaultCase | None:
    """A broken request that was diagnosed right, of the query class with exceptions where there is one."""
    right = [case for case in cases if case.truth.stage and case.oracle.diagnosis.stage == case.truth.stage]
    return next((case for case in right if case.record.segment == "exception"), next(iter(right), None))
