"""Outcomes: what people and verifiers say of the answers, beside what the stages say."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import (
    Dashboard,
    Panel,
    PanelSection,
    Target,
    commands,
    over_time,
    shares_over_time,
)
from ragtrace.dashboards._promql import RANGE, WINDOW, increase, rate, selector, share
from ragtrace.registry.instruments import (
    CORRECTED_RATE,
    CORRECTED_RATE_TIMESTAMP,
    DIAGNOSES,
    OUTCOMES as JUDGMENTS,
    REQUESTS,
)

__all__ = ["OUTCOMES"]

_FEEDBACK: Final = "It fills when the application calls `ragtrace.feedback` on a request."
_WORDS: Final = {
    "task": "Tasks that succeeded",
    "rating": "Answers that people rated as good",
    "verifier": "Answers that passed the verifier",
}


def _good(outcome: str, *by: str, window: str) -> str:
    return share(
        increase(JUDGMENTS, *by, window=window, outcome=outcome, result="good"),
        increase(JUDGMENTS, *by, window=window, outcome=outcome),
    )


def _now(outcome: str, title: str) -> Panel:
    return Panel(
        title=title,
        kind="stat",
        description=f"{JUDGMENTS.brief} Share of `{outcome}` judgments that are good, over the whole range.",
        unit="percentunit",
        targets=(Target(_good(outcome, window=RANGE), title),),
        width=8,
        height=5,
        minimum=0,
        maximum=1,
        decimals=1,
        empty=_FEEDBACK,
    )


def _by_segment(outcome: str, title: str) -> Panel:
    return shares_over_time(
        f"{title}, by segment",
        f"{JUDGMENTS.brief} Share of `{outcome}` judgments that are good.",
        Target(_good(outcome, "segment", window=WINDOW), "{{segment}}", exemplar=True),
        width=8,
        empty=_FEEDBACK,
    )


_BESIDE: Final = shares_over_time(
    "Outcomes beside the diagnosis",
    "Share of good judgments, and shares of diagnosed requests in which no stage is broken, and in which "
    "all are sound. Where outcomes fall and the diagnosis does not, something breaks that no stage measures.",
    *(Target(_good(outcome, window=WINDOW), title.lower()) for outcome, title in _WORDS.items()),
    Target(
        share(increase(DIAGNOSES, window=WINDOW, stage="none"), increase(DIAGNOSES, window=WINDOW)),
        "no stage is broken",
    ),
    Target(
        share(increase(DIAGNOSES, window=WINDOW, verdict="healthy"), increase(DIAGNOSES, window=WINDOW)),
        "every stage is sound",
    ),
    width=16,
)

_JUDGED: Final = over_time(
    "Judgments",
    f"{JUDGMENTS.brief} Few judgments make shares that jump.",
    Target(f"60 * {rate(JUDGMENTS, 'outcome', 'result')}", "{{outcome}}: {{result}}"),
    kind="stacked",
    unit="cpm",
    width=8,
    empty=_FEEDBACK,
)

_LABELS: Final = "It fills once `ragtrace label rates` had labels enough (docs/how-to/label.md)."

_CORRECTED: Final = Panel(
    title="How often does each stage really break?",
    kind="table",
    description=f"{CORRECTED_RATE.brief} The last window that was labeled; alerts do not rest on it.",
    unit="percentunit",
    targets=tuple(
        Target(f"max by (service, stage) ({selector(CORRECTED_RATE, bound=bound)})", name)
        for bound, name in (("estimate", "share"), ("low", "at least"), ("high", "at most"))
    ),
    width=16,
    key=("service", "stage"),
    decimals=1,
    empty=_LABELS,
)

_LABELED: Final = Panel(
    title="Time since the labeled window ended",
    kind="stat",
    description=f"{CORRECTED_RATE_TIMESTAMP.brief} What changed since then is not in the rates.",
    unit="s",
    targets=(Target(f"time() - max by (service) ({selector(CORRECTED_RATE_TIMESTAMP)})", "{{service}}"),),
    width=8,
    height=8,
    empty=_LABELS,
)

_RECORDED: Final = over_time(
    "Recorded requests, by segment",
    f"{REQUESTS.brief} All that follows speaks for these.",
    Target(f"60 * {rate(REQUESTS, 'segment')}", "{{segment}}", exemplar=True),
    kind="stacked",
    unit="cpm",
    empty="It fills when the application records requests.",
)

_ERRORS: Final = over_time(
    "Requests that ended with an exception",
    f"{REQUESTS.brief} Share of those whose status is `error`, by segment.",
    Target(share(rate(REQUESTS, "segment", status="error"), rate(REQUESTS, "segment")), "{{segment}}", exemplar=True),
    unit="percentunit",
    empty="It stays empty as long as no request ended with an exception.",
)

OUTCOMES: Final = Dashboard(
    uid="ragtrace-outcomes",
    title="ragtrace: outcomes",
    description="Task success, ratings and verifiers, beside what the diagnosis says.",
    sections=(
        PanelSection("How good are the answers?", tuple(_now(*each) for each in _WORDS.items())),
        PanelSection("In which segment?", tuple(_by_segment(*each) for each in _WORDS.items())),
        PanelSection("Does the diagnosis agree?", (_BESIDE, _JUDGED)),
        PanelSection("What people's labels say", (_CORRECTED, _LABELED)),
        PanelSection("Traffic", (_RECORDED, _ERRORS)),
        commands(),
    ),
)
