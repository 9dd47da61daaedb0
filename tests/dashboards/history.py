"""Hours of a service that goes wrong, for a real Prometheus: every metric of the registry has a course in it.

Two hours before the end a reranker is released that loses evidence in two of five segments. Of another service next to
nothing can be judged. Prometheus takes the course as blocks (`promtool tsdb create-blocks-from`), so that nobody waits
for it.
"""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ragtrace.registry import Instrument
from ragtrace.registry.instruments import ATTRIBUTES, INSTRUMENTS, STAGES
from tests.live.prometheus import Prometheus, program

__all__ = [
    "BAD_RELEASE",
    "BAD_SEGMENTS",
    "SEGMENTS",
    "SERVICE",
    "SHOWN_SECONDS",
    "UNJUDGED_SERVICE",
    "exposition",
    "prometheus",
]

SERVICE: Final = "policy-assistant"
UNJUDGED_SERVICE: Final = "faq-bot"
SEGMENTS: Final = ("change", "deadline", "eligibility", "exception", "limit")
BAD_SEGMENTS: Final = ("deadline", "exception")
BAD_RELEASE: Final = ("reranker", "fusion-1.5")

STEP_SECONDS: Final = 60
SHOWN_SECONDS: Final = 3 * 3600
HISTORY_SECONDS: Final = 2 * SHOWN_SECONDS + 900  # panels compare with the range before
BAD_SECONDS: Final = 2 * 3600

Labels = tuple[tuple[str, str], ...]

_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "outcome": ("task", "rating", "verifier"),
    "stage": ("retrieve", "rerank", "pack", "generate"),
    "where": ("retrieval", "rerank", "packing", "truncation"),
    "reason": ("no_reference", "language", "queue full"),
    "source": ("wordings", "bulletins", "faq"),
    "provider": ("north", "south", "east"),
    "metric": tuple(one.id for one in INSTRUMENTS.values() if one.analysis == "coverage"),
    "judge": ("3f9a01c2",),
    "state": ("pending", "leased", "dead"),
    "question_type": ("country", "religion"),
}
_VERDICTS: Final = {"none": "healthy"} | {stage.name: stage.failure for stage in STAGES}
_RELEASED: Final = (
    ("index", "2026-10", 30 * 86400),
    ("model", "m-7", 12 * 86400),
    ("prompt", "p-3", 9 * 86400),
    ("citation", "c-1", 40 * 86400),
    ("reranker", "fusion-1.4", 20 * 86400),
    ("packer", "budget-2", 50 * 86400),
    ("index", "2026-11", int(2.7 * 3600)),
    (*BAD_RELEASE, BAD_SECONDS),
)

_REPLACED: Final = {("index", "2026-10"): int(2.7 * 3600), ("reranker", "fusion-1.4"): BAD_SECONDS}
_COSTS: Final = (("coverage", "cpu", 0.02), ("attribution", "gpu", 0.3), ("attribution", "cpu", 0.05))


class _Course:
    """Series that grow: what they hold now, and what they held at each step."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end, self.now = start, end, start
        self._held: dict[tuple[str, Labels], float] = defaultdict(float)
        self._samples: dict[tuple[str, Labels], list[tuple[float, float]]] = defaultdict(list)

    @property
    def is_bad(self) -> bool:
        return self.now >= self.end - BAD_SECONDS

    def add(self, instrument: Instrument, by: float = 1.0, /, **labels: str) -> None:
        self._held[instrument.name, tuple(labels.items())] += by

    def set(self, instrument: Instrument, value: float, **labels: str) -> None:
        self._held[instrument.name, tuple(labels.items())] = value

    def end_of(self, instrument: Instrument, **labels: str) -> None:
        self._held.pop((instrument.name, tuple(labels.items())), None)

    def observe(self, instrument: Instrument, value: float, **labels: str) -> None:
        given = tuple(labels.items())
        for bound in (*instrument.buckets, float("inf")):
            le = "+Inf" if bound == float("inf") else repr(bound)
            self._held[f"{instrument.name}_bucket", (*given, ("le", le))] += value <= bound
        self._held[f"{instrument.name}_sum", given] += value
        self._held[f"{instrument.name}_count", given] += 1

    def alert(self, **labels: str) -> None:
        self._held["ALERTS", tuple(labels.items())] = 1

    def sample(self) -> None:
        for key, value in self._held.items():
            self._samples[key].append((self.now, value))
        self.now += STEP_SECONDS

    def text(self) -> Iterator[str]:
        for (name, labels), samples in sorted(self._samples.items()):
            written = ",".join(f'{label}="{value}"' for label, value in labels)
            for at, value in samples:
                yield f"{name}{{{written}}} {value!r} {at:.0f}\n"
        yield "# EOF\n"


def exposition(end: float, *, seed: int = 7) -> Iterator[str]:
    """The course until `end` as OpenMetrics text with times."""
    course, drawn = _Course(end - HISTORY_SECONDS, end), random.Random(seed)
    _start_at_zero(course)
    while course.now <= end:
        for segment in SEGMENTS:
            for _ in range(drawn.choice((1, 2, 2, 3))):
                _request(course, drawn, segment)
        _unjudged(course)
        _gauges(course, drawn)
        course.sample()
    yield from course.text()


def _start_at_zero(course: _Course) -> None:
    """As the exporter does: a counter that first appears at 1 has no increase."""
    for instrument in INSTRUMENTS.values():
        if instrument.kind == "counter":
            for labels in labelings(instrument):
                course.add(instrument, 0.0, **labels)
    course.sample()


def labelings(instrument: Instrument) -> list[dict[str, str]]:
    """Every set of labels that the instrument has in the course."""
    known = _VALUES | {"service": (SERVICE,), "segment": SEGMENTS, "reference": ("oracle",), "stratum": ("random",)}
    if instrument.id.startswith("sli_") or instrument.id == "page_judgments":
        known["stage"] = tuple(stage.name for stage in STAGES)
    if instrument.id == "sli_unjudged_requests":
        known |= {"state": ("suspected", "not_known"), "reason": ("low_match", "undecided")}
    if instrument.id == "diagnoses":
        known |= {"stage": tuple(_VERDICTS), "verdict": (*_VERDICTS.values(), "no_break_found")}
    found: list[dict[str, str]] = [{}]
    for name in instrument.attributes:
        values = known.get(name) or ATTRIBUTES[name] or (f"a {name}",)
        found = [{**each, name: value} for each in found for value in values]
    return found


def _request(course: _Course, drawn: random.Random, segment: str) -> None:
    lost = course.is_bad and segment in BAD_SEGMENTS and drawn.random() < 0.6
    scores = {
        "query_coverage": drawn.choice((1.0,) * 39 + (0.5,)),
        "best_relevance": drawn.betavariate(6, 1),
        "host_relevance": drawn.betavariate(5, 1),
        "candidate_recall": 1.0,
        "evidence_depth": drawn.choice((1.0, 1.0, 2.0, 3.0, 4.0, 8.0, 15.0)),
        "evidence_recall": 0.0 if lost else drawn.choice((1.0,) * 49 + (0.5,)),
        "evidence_overlap": 0.0 if lost else drawn.uniform(0.1, 0.3),
        "evidence_precision": 0.0 if lost else drawn.uniform(0.1, 0.4),
        "rank_shift": drawn.uniform(6, 14) if lost else drawn.choice((0.0, 0.0, 1.0, 2.0)),
        "evidence_token_share": 0.0 if lost else drawn.uniform(0.1, 0.6),
        "answer_coverage": 0.4 if lost else drawn.choice((1.0,) * 39 + (0.6,)),
        "contradiction_rate": drawn.choice((0.0,) * (9 if lost else 49) + (0.3,)),
        "answer_relevance": drawn.betavariate(5, 2),
        "claim_support": drawn.uniform(0, 0.5) if lost else drawn.betavariate(8, 1),
        "citation_coverage": drawn.choice((1.0,) * 39 + (0.5,)),
        "warg_adjusted": min(2.0, max(0.0, drawn.gauss(0.6, 0.3))),
        "wasted_retrieval": float(drawn.random() < 0.2),
        "noise_distraction": float(drawn.random() < 0.12),
        "completeness_delta": 10 ** drawn.uniform(-5, -2.5),
        "truncated_tokens": drawn.choice((0.0, 0.0, 0.0, 40.0, 200.0)),
        "dangling_citations": drawn.choice((0.0,) * 29 + (1.0,)),
        "candidate_age": drawn.uniform(1, 60) * 86400,
        "analyzer_lag": drawn.uniform(2, 50),
        "stage_duration": drawn.lognormvariate(-1.5, 0.6),
        "attribution_duration": drawn.uniform(2, 20),
        "attribution_evaluations": drawn.uniform(30, 300),
    }
    known = {"service": SERVICE, "segment": segment, "reference": "oracle", "stratum": "random"}
    for instrument in INSTRUMENTS.values():
        if instrument.kind == "histogram":
            value = scores.get(instrument.id, drawn.uniform(0, instrument.buckets[-1]))
            for labels in labelings(instrument):
                if labels.get("segment", segment) == segment:
                    course.observe(instrument, value, **labels)
    _count(course, drawn, known, scores, lost)


def _count(course: _Course, drawn: random.Random, known: dict[str, str], scores: dict[str, float], lost: bool) -> None:
    counted = {one.id: one for one in INSTRUMENTS.values()}
    sound = _count_states(course, drawn, known, scores, lost)
    stage = "ranking" if lost else drawn.choice(("none",) * 60 + ("retrieval", "generation", "citation"))
    busy = {
        "requests": {"status": "error" if drawn.random() < 0.01 else "ok"},
        "diagnoses": {"stage": stage, "verdict": _VERDICTS[stage] if stage != "none" or sound else "no_break_found"},
        "retrieval_actions": {"action": drawn.choice(("CORRECT",) * 7 + ("AMBIGUOUS",) * 2 + ("INCORRECT",))},
        "host_actions": {"result": drawn.choice(("good",) * 9 + ("bad",))},
        "graded_answers": {
            "question_type": drawn.choice(("country", "religion")),
            "action": drawn.choice(("CORRECT",) * 3 + ("AMBIGUOUS", "INCORRECT")),
            "result": drawn.choice(("good",) * (4 if lost else 9) + ("bad",)),
        },
        "lost_evidence": {"where": "rerank"} if lost else None,
        "undefined": {"metric": drawn.choice(_VALUES["metric"]), "reason": drawn.choice(("no_reference", "language"))}
        if drawn.random() < 0.9  # so often that each metric has some in every window
        else None,
        "late_evaluations": {} if drawn.random() < 0.002 else None,
        "analyses": {"job_kind": drawn.choice(("coverage",) * 4 + ("attribution",))},
        "chunk_drift": {"kind": drawn.choice(("rewritten", "renumbered"))} if drawn.random() < 0.01 else None,
        "dropped": {"reason": "queue full"} if drawn.random() < 0.002 else None,
        "internal_errors": {"where": "retrieval"} if drawn.random() < 0.001 else None,
    }
    for name, labels_ in busy.items():
        if labels_ is not None:
            values = known | labels_
            course.add(counted[name], 1.0, **{label: values[label] for label in counted[name].attributes})
    for outcome, success in (("task", 0.9), ("rating", 0.8), ("verifier", 0.96)):
        good = drawn.random() < (0.45 if lost else success)
        labels = {**known, "outcome": outcome, "result": "good" if good else "bad"}
        course.add(counted["outcomes"], 1.0, **{name: labels[name] for name in counted["outcomes"].attributes})
    for provider in _VALUES["provider"]:
        places = {"provider_exposure": drawn.choice((1, 2, 2, 3)), "provider_deserved_exposure": 1.8}
        used = {"provider_attributed_exposure": drawn.choice((0, 1)), "provider_misused": float(drawn.random() < 0.1)}
        alone = {"provider_valued": 4.0, "provider_useful": 1.5}
        labels = {**known, "provider": provider, "used_by": "claims", "useful_by": "log_probability"}
        for name, number in {"provider_requests": 1.0, **places, **used, **alone}.items():
            _add(course, counted[name], number, labels)
    for kind, resource, seconds in (
        ("coverage", "cpu", 0.02),
        ("attribution", "gpu", 0.3),
        ("attribution", "cpu", 0.05),
    ):
        course.add(counted["analysis_cost"], seconds * drawn.uniform(0.5, 2), job_kind=kind, resource=resource)


def _count_states(
    course: _Course, drawn: random.Random, known: dict[str, str], scores: dict[str, float], lost: bool
) -> bool:
    """Count the state of each stage; of some requests retrieval is suspected, or nothing is known of generation.

    Returns whether all stages are judged.
    """
    counted = {one.id: one for one in INSTRUMENTS.values()}
    broken = {
        "retrieval": scores["query_coverage"] < 1,
        "ranking": scores["evidence_recall"] < 1,
        "generation": scores["answer_coverage"] < 1,
        "citation": scores["citation_coverage"] < 1,
    }
    open_to_doubt = drawn.choice(("", "", "", "", "", "", "", "", "retrieval", "generation"))
    in_scope = True
    for stage in STAGES:
        for scope in ("all", "conditional") if in_scope else ("all",):
            labels = {**known, "stage": stage.name, "scope": scope, "judge": _VALUES["judge"][0]}
            if stage.name == open_to_doubt:
                suspected = stage.name == "retrieval"
                labels |= {"state": "suspected" if suspected else "not_known"}
                labels |= {"reason": "low_match" if suspected else "undecided"}
                _add(course, counted["sli_unjudged_requests"], 1.0, labels)
            else:
                _add(course, counted["sli_requests"], 1.0, labels)
                _add(course, counted["sli_good_requests"], float(not broken[stage.name]), labels)
        in_scope = in_scope and not broken[stage.name] and not (stage.name == open_to_doubt == "retrieval")
    if lost and drawn.random() < 0.05:
        judgment = {"stage": "ranking", "severity": "page", "judgment": drawn.choice(("right",) * 8 + ("false",))}
        _add(course, counted["page_judgments"], 1.0, known | judgment)
    return not open_to_doubt


def _unjudged(course: _Course) -> None:
    """A request of the service of which nothing is known but that its stages ran."""
    counted = {one.id: one for one in INSTRUMENTS.values()}
    known = {"service": UNJUDGED_SERVICE, "segment": "default", "reference": "none", "stratum": "random"}
    for stage in STAGES:
        labels = {**known, "stage": stage.name, "scope": "all", "judge": _VALUES["judge"][0]}
        why = {"state": "not_known", "reason": "language" if stage.name == "generation" else "undecided"}
        _add(course, counted["sli_unjudged_requests"], 1.0, labels | why)
        _add(course, counted["sli_requests"], 0.0, labels)
        _add(course, counted["sli_good_requests"], 0.0, labels)


def _add(course: _Course, instrument: Instrument, by: float, labels: dict[str, str]) -> None:
    course.add(instrument, by, **{name: labels[name] for name in instrument.attributes})


def _gauges(course: _Course, drawn: random.Random) -> None:
    counted = {one.id: one for one in INSTRUMENTS.values()}
    for component, version, ago in _RELEASED:
        if course.end - ago > course.now:
            continue
        labels = {"service": SERVICE, "component": component, "version": version}
        course.set(counted["release_timestamp"], course.end - ago, **labels)
        if (component, version) not in _REPLACED or course.now < course.end - _REPLACED[component, version]:
            course.set(counted["version_info"], 1.0, **labels)
        else:
            course.end_of(counted["version_info"], **labels)
    for source, delay, documents in (("wordings", 1800, 150), ("bulletins", 7200, 2300), ("faq", 400, 90)):
        labels = {"service": SERVICE, "source": source}
        stale = 3 * 3600 if source == "bulletins" else 0
        course.set(counted["source_delay"], delay * drawn.uniform(0.9, 1.1), **labels)
        course.set(counted["source_newest_timestamp"], course.now - stale - course.now % 3600 - 900, **labels)
        course.set(counted["source_report_timestamp"], course.now - course.now % 3600, **labels)
        course.set(counted["source_documents"], documents * (0.6 if source == "faq" and course.is_bad else 1), **labels)
    given = {
        "analyzer_last_success": course.now - 12,
        "queue_oldest": drawn.uniform(0, 20),
        "queue_jobs": float(drawn.randint(0, 12)),
        "attribution_jobs": float(drawn.randint(0, 40)),
        "exposition_series": 1_200.0,
        "exposition_dropped": 0.0,
        "totals_forgotten": course.end - 7_200,
        "corrected_rate_timestamp": course.end - 86_400,
        "build_info": 1.0,
        "receiver_room": drawn.uniform(0, 0.1),
        "receiver_waiting": float(drawn.randint(0, 30)),
        "receiver_oldest": drawn.uniform(0, 2),
    }
    course.observe(counted["receiver_commit"], drawn.uniform(0.01, 0.08))
    for name, by, labels in (
        ("receiver_requests", 12.0, {"protocol": "http", "signal": "traces", "answer": "accepted"}),
        ("receiver_items", 96.0, {"signal": "traces", "fate": "accepted"}),
        ("receiver_bytes", 9e5, {"protocol": "http", "signal": "traces"}),
        ("receiver_traces", 12.0, {"fate": "assembled"}),
        ("receiver_claims", 1.0, {"claim": "believed"}),
    ):
        course.add(counted[name], by, **labels)
    for name, value in given.items():
        for labels in labelings(counted[name]):
            course.set(counted[name], value, **labels)
    for stage, share in (("retrieval", 0.06), ("ranking", 0.03), ("generation", 0.08), ("any", 0.16)):
        for bound, by in (("estimate", 1.0), ("low", 0.6), ("high", 1.5)):
            course.set(counted["corrected_rate"], share * by, service=SERVICE, stage=stage, bound=bound)
    for stage, share in (("retrieval", 0.0), ("ranking", 0.62), ("generation", 0.21), ("citation", 0.7), ("any", 0.38)):
        course.set(counted["calibration_named"], share, service=SERVICE, stage=stage)
    for bound, share in (("estimate", 0.006), ("high", 0.012)):
        course.set(counted["calibration_blamed"], share, service=SERVICE, bound=bound)
    if course.is_bad:
        for segment in BAD_SEGMENTS:
            names = {"alertname": "RagtraceRankingPage", "owner": "ranking-context", "stage": "ranking"}
            course.alert(alertstate="firing", severity="page", service=SERVICE, segment=segment, **names)


@contextmanager
def prometheus(folder: Path, end: float) -> Iterator[str]:
    """The address of a real Prometheus that holds the course until `end` and scrapes nothing."""
    server = Prometheus(folder / "prometheus")
    course = folder / "course.txt"
    with course.open("w", encoding="utf-8") as file:
        file.writelines(exposition(end))
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(course)]
    subprocess.run([*command, str(folder / "prometheus" / "data")], check=True, capture_output=True)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
