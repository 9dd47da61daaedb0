"""The quality of a service's verdicts, as far as it is known: what its calibration promises, and corrected rates.

A promise is of injected losses, never of natural ones. Rates are corrected by labels of people, of the last window that
has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ragtrace.sample_statistics import FEWEST_LABELS
from ragtrace.store import CorrectedRate, Drawing, FaultFigures, ServiceCalibration, Store
from ragtrace.times import written_time as written
from ragtrace.triage._report import CorrectedShare

__all__ = [
    "active_calibration",
    "calibration_words",
    "corrected_shares",
    "corrected_shares_of",
    "promise",
    "share_words",
    "stage_words",
]

_FRESH: Final = 30 * 86_400 * 10**9  # nanoseconds for which the rates of a window are shown
_SOME: Final = 0.1  # of the faults of a stage, below which it counts as one that cannot be named
_BY_A_MODEL: Final = ("ranking", "generation")


def active_calibration(store: Store, service: str, judge: str | None = None) -> ServiceCalibration | None:
    """The calibration at work of a service, for a judge (the digest of rules and models) or the newest of any."""
    found = (each for each in store.calibrations([service]) if each.state == "active")
    return next((each for each in found if judge is None or each.judge == judge), None)


def promise(store: Store, service: str) -> str | None:
    """What the service's calibrations promise; None where none is at work."""
    active = [each for each in store.calibrations([service]) if each.state == "active" and each.is_current]
    told = [f"by {each.models or 'words'}: {calibration_words(each)}" for each in active]
    return "; ".join(told) or None


def calibration_words(calibration: ServiceCalibration) -> str:
    """What a calibration promises, in a sentence."""
    injected = sum(each.injected for each in calibration.faults)
    named = sum(each.named for each in calibration.faults)
    share = f"names {named / injected:.0%} of {injected} injected losses" if injected else "no loss could be injected"
    blame = f"blames at most {calibration.blamed:.1%} of sound requests (upper end {calibration.blamed_high:.1%})"
    return "; ".join([f"{share}, {blame}", *_unnamed(calibration)])


def _unnamed(calibration: ServiceCalibration) -> Iterator[str]:
    for each in calibration.faults:
        if each.injected and each.named < _SOME * each.injected:
            yield f"{each.stage} cannot be named {_remedy(each, by_words=not calibration.models)}"


def _remedy(figures: FaultFigures, *, by_words: bool) -> str:
    if figures.stage == "retrieval":
        return "without a probe, gold evidence or facets"
    return "without a model" if by_words and figures.stage in _BY_A_MODEL else "by this judge"


def stage_words(calibration: ServiceCalibration) -> str:
    """How much a calibration names at each stage, with the numbers."""
    return ", ".join(f"{each.stage} {each.named} of {each.injected}" for each in calibration.faults if each.injected)


def share_words(calibration: ServiceCalibration, enough_sound: int) -> str:
    """What is known of how many requests are broken: without labels, nothing.

    enough_sound: of how many requests that people call sound false blame can be measured.
    """
    if calibration.labeled_sound:
        return "by labels (ragtrace label rates)"
    needed = f"{FEWEST_LABELS} labels (ragtrace label), and false blame {enough_sound} of sound requests"
    return f"not estimated; it needs {needed}"


def corrected_shares(store: Store, service: str, now: int) -> tuple[CorrectedShare, ...]:
    """The rates of the last window that has any, corrected by labels; none where that is 30 days ago.

    now: nanoseconds.
    """
    known = [each for each in store.drawings(service) if each.rates and now - _FRESH <= each.until]
    last = max(known, key=lambda each: (each.until, each.drawn_at), default=None)
    return () if last is None else tuple(_share(last, each) for each in last.rates)


def corrected_shares_of(store: Store, service: str, versions: Mapping[str, str]) -> dict[str, CorrectedShare]:
    """The same by stage, of the live requests that carried exactly these versions: of their newest drawing with rates,
    however long ago; empty without one, since a verdict's rate is no match for a corrected one."""
    known = (each for each in store.drawings(service) if each.rates and each.versions == dict(versions))
    newest = next(known, None)
    return {} if newest is None else {each.stage: _share(newest, each) for each in newest.rates}


def _share(drawing: Drawing, rate: CorrectedRate) -> CorrectedShare:
    return CorrectedShare(
        stage=rate.stage,
        by_verdict=rate.verdict,
        share=rate.rate,
        low=rate.low,
        high=rate.high,
        labels=rate.labels,
        until=written(drawing.until),
    )
