"""A service's calibration: from which window one may be proposed, its day in shadow, and how it is accepted.

A calibration is frozen: a new version of the service is judged by the old one, or a release that breaks much would be
taken for what is usual. So one is proposed only from a window in which nothing burns, nothing grows and nothing was
released, it changes no verdict for a day, and it names no more than the one before unless labels say otherwise.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Final

from ragtrace.analyze.service_calibration import (
    BOUND,
    COPIES,
    ENOUGH_SOUND,
    FEWEST,
    Untouched,
    calibrate_lines,
    judge_as_worker,
)
from ragtrace.analyze.worker import WorkerSettings
from ragtrace.errors import ConfigurationError
from ragtrace.formats import plain, shown_time
from ragtrace.plausible_values import is_weighable
from ragtrace.sample_statistics import holm
from ragtrace.store import MeasuredRequest, RequestFilter, ServiceCalibration, Store
from ragtrace.triage._checks import chance_of_rise, check, doubts, is_surely_over, rise_text, segments_of
from ragtrace.triage._evidence import Window, draw
from ragtrace.triage._releases import rollouts
from ragtrace.triage._statistics import has_risen
from ragtrace.triage._walk import triage_segment
from ragtrace.triage.labels import CANNOT_TELL, NONE, active_calibration

__all__ = [
    "DAY",
    "MOST",
    "accept_calibration",
    "find_calibration",
    "propose_calibration",
    "reasons_against",
    "reject_calibration",
]

DAY: Final = 86_400 * 10**9
"""Nanoseconds that a calibration runs in shadow before it can be accepted."""
MOST: Final = 500
"""Requests that are judged as they are."""
_CHANCE: Final = 0.01  # that the share in doubt of any segment rises so by chance, up to which it has risen
_BURNING: Final = ("broken", "recovered", "worse", "unclear")


def propose_calibration(
    store: Store,
    service: str,
    window: Window,
    settings: WorkerSettings | None = None,
    *,
    most: int = MOST,
    copies: int = COPIES,
    now: int | None = None,
) -> ServiceCalibration:
    """Fit the lines of a service on a window, for what judges with these settings, and put them into shadow.

    most: requests that are judged as they are, drawn evenly; copies: requests that each fault breaks at most.

    Raises: ConfigurationError where the window cannot be calibrated on (`reasons_against`), or has too few requests
        with what the judge needs.
    """
    at = time.time_ns() if now is None else now
    measured = _random_stratum(store, service, window)
    untouched = _untouched(store, service, measured, most)
    if len(untouched) < FEWEST:
        raise ConfigurationError(
            f"{len(untouched)} requests of the random stratum of {service!r} are stored there, and a share of "
            f"{BOUND:.1%} can be told from {FEWEST} on; give an earlier --since, or wait"
        )
    models = (settings or WorkerSettings()).models
    judge = models.judge(models.verified_by())
    active = active_calibration(store, service, judge)
    is_labeled = sum(bool(each.is_sound) for each in untouched) >= ENOUGH_SOUND
    _refuse_unless_calm(store, service, window, measured, active, is_labeled=is_labeled)
    lines = calibrate_lines(
        untouched, judge_as_worker(store, models), current=active.raised if active else None, copies=copies
    )
    if lines.requests < FEWEST:
        raise ConfigurationError(
            f"{lines.requests} of {len(untouched)} requests were judged by these models, and {FEWEST} are needed; "
            "raise the judge's budget"
        )
    if is_labeled and not lines.labeled_sound:  # the models judged too few of the labeled ones for labels to tell
        _refuse_unless_calm(store, service, window, measured, active, is_labeled=False)
    proposal = ServiceCalibration(
        calibration_id="",
        service=service,
        judge=judge,
        models=models.names,
        created_at=at,
        since=window.since,
        until=window.until,
        versions=_versions(measured),
        **{name: getattr(lines, name) for name in type(lines).__slots__},
    )
    body = json.dumps(asdict(proposal), sort_keys=True)
    proposal = replace(proposal, calibration_id=hashlib.blake2b(body.encode(), digest_size=6).hexdigest())
    if not store.propose_calibration(proposal, fitted_from=active.calibration_id if active else None):
        raise ConfigurationError(
            "another calibration was accepted while this one was fitted, from the one before; run again"
        )
    return proposal


def _refuse_unless_calm(
    store: Store,
    service: str,
    window: Window,
    measured: Sequence[MeasuredRequest],
    active: ServiceCalibration | None,
    *,
    is_labeled: bool,
) -> None:
    against = reasons_against(store, service, window, measured, active, is_labeled=is_labeled)
    if against:
        raise ConfigurationError(
            f"no calibration is proposed from this window: {'; '.join(against)}. The service is judged by "
            f"{f'calibration {active.calibration_id}' if active else 'the lines that all services have'} as before; "
            "give a window in which nothing changed"
        )


def reasons_against(
    store: Store,
    service: str,
    window: Window,
    measured: Sequence[MeasuredRequest],
    active: ServiceCalibration | None = None,
    *,
    is_labeled: bool = False,
) -> list[str]:
    """Why nothing may be fitted on a window: a release, a stage over its objective, growth of suspicion, each in all
    requests or in one segment alone.

    active: the calibration at work, whose window is compared with, too. is_labeled: whether enough requests are known
    to be sound for false blame to be measured: then a stage may be over its objective.
    """
    against = [
        f"{release.component}={release.version} was released in it, at {shown_time(release.at)}"
        for release in rollouts(store.releases(service))
        if window.since <= release.at < window.until
    ]
    report = triage_segment(store, service, None, window)
    if not any(check.state not in ("no_data", "not_checked") for check in report.checks):
        against.append("too few of its requests are analyzed to tell whether anything changed (ragtrace analyze)")
    against += [
        f"{check.stage} {_words(check.state)}"
        for check in report.checks
        if check.state in _BURNING and not (is_labeled and check.state in ("broken", "unclear"))
    ]
    against += [f"{rise.stage}: {rise.finding}" for rise in report.rises if rise.follows is None]
    against += _of_segments(store, service, window, is_labeled=is_labeled)
    if active is not None and not is_labeled:
        grown = _grown(measured, active)
        if grown is not None:
            against.append(grown)
    return list(dict.fromkeys(against))


def _of_segments(store: Store, service: str, window: Window, *, is_labeled: bool) -> Iterator[str]:
    """What is over its objective, or grew, in one segment: a small one moves no share of all requests. Of many
    segments, chance alone is taken for neither."""
    samples = [list(segments_of(evidence)) for evidence in draw(store, service, None, window).by_judge()]
    parts = [part for sample in samples if len(sample) > 1 for part in sample]
    looked = [(name, part, stage, share.unjudged) for name, part in parts for stage, share in doubts(part).items()]
    chances = holm([chance_of_rise(doubt) for _, _, _, doubt in looked])
    for (name, part, stage, doubt), chance in zip(looked, chances, strict=True):
        where = f"{stage} in segment {plain(name)}"
        if is_surely_over(part, stage):
            state = check(part, stage, doubt).state
            if state in _BURNING and not (is_labeled and state in ("broken", "unclear")):
                yield f"{where} {_words(state)}"
        if chance <= _CHANCE and doubt.follows is None:
            yield f"{where}: {rise_text(doubt)}"


def _words(state: str) -> str:
    return {
        "broken": "is over its objective",
        "recovered": "was over its objective",
        "worse": "got worse than before",
        "unclear": "may be over its objective",
    }[state]


def _grown(measured: Sequence[MeasuredRequest], active: ServiceCalibration) -> str | None:
    """Whether more is suspected or broken than where the calibration at work was fitted; None where it is not."""
    judged = [each for each in measured if each.states]
    now = [(_is_suspected(each), 1 / each.head_probability) for each in judged]
    part = round(active.suspected * active.requests)
    before = [(place < part, 1.0) for place in range(active.requests)]
    if not has_risen(now, before):
        return None
    share = sum(weight for is_so, weight in now if is_so) / sum(weight for _, weight in now)
    then = f"{active.suspected:.0%} when calibration {active.calibration_id} was fitted"
    return f"a stage is suspected or broken in {share:.0%} of the requests, and was in {then}"


def _is_suspected(measured: MeasuredRequest) -> bool:
    return any(state in ("suspected", "broken") for state in measured.states.values())


def _random_stratum(store: Store, service: str, window: Window) -> list[MeasuredRequest]:
    wanted = RequestFilter(service, window.since, window.until)
    return [each for each in store.measured(wanted, ()) if each.head_sampled and is_weighable(each.head_probability)]


def _untouched(store: Store, service: str, measured: Sequence[MeasuredRequest], most: int) -> list[Untouched]:
    """Requests drawn evenly, those that people labeled first, with what they said."""
    said = _labeled(store, service, [each.request_id for each in measured])
    order = sorted(measured, key=lambda each: (each.request_id not in said, _number(each.request_id)))
    chosen = {each.request_id: each for each in order[:most]}
    records = store.get_records(list(chosen))
    found = []
    for id_, each in chosen.items():
        if id_ in records:
            weight = 1 / each.head_probability
            is_sound, probability = said.get(id_, (None, 1.0))
            found.append(Untouched(records[id_], weight, is_sound, weight / probability))
    return found


def _labeled(store: Store, service: str, request_ids: Sequence[str]) -> dict[str, tuple[bool, float]]:
    """Whether people call a request sound, and with which probability it was drawn for a label.

    Of one drawing alone, the newest with enough that are sound: what was picked by hand, or drawn where the verdict is
    unsure and counted as if it were usual, tells no rate. Nothing where there is no such drawing.
    """
    said = _labels(store, request_ids)
    for drawing in store.drawings(service) if sum(said.values()) >= ENOUGH_SOUND else ():
        drawn = store.drawn_requests(drawing.drawing_id)
        found = {
            each.request_id: (said[each.request_id], each.probability) for each in drawn if each.request_id in said
        }
        if sum(is_sound for is_sound, _ in found.values()) >= ENOUGH_SOUND:
            return found
    return {}


def _labels(store: Store, request_ids: Sequence[str]) -> dict[str, bool]:
    """Whether people call a request sound; those that they cannot tell, or disagree on, are left out."""
    found: dict[str, set[bool]] = {}
    for label in store.labels(request_ids=request_ids):
        if label.first_broken != CANNOT_TELL:
            found.setdefault(label.request_id, set()).add(label.first_broken == NONE)
    return {id_: next(iter(said)) for id_, said in found.items() if len(said) == 1}


def _number(request_id: str) -> bytes:
    """A request's own number, apart from those by which it was sampled, and drawn for a label."""
    return hashlib.blake2b(
        request_id.encode("utf-8", "surrogatepass"), digest_size=8, person=b"ragtrace-calibr"
    ).digest()


def _versions(measured: Sequence[MeasuredRequest]) -> dict[str, str]:
    counts = Counter(json.dumps(each.traits.versions, sort_keys=True) for each in measured)
    found: dict[str, str] = json.loads(counts.most_common(1)[0][0])
    return found


def find_calibration(store: Store, beginning: str) -> ServiceCalibration:
    """The calibration whose id begins so. Raises: ConfigurationError for none, or several."""
    found = [each for each in store.calibrations() if each.calibration_id.startswith(beginning)]
    if len(found) != 1:
        known = ", ".join(each.calibration_id for each in store.calibrations()[:5]) or "none"
        raise ConfigurationError(f"{len(found)} calibrations begin with {beginning!r}; the newest are: {known}")
    return found[0]


def accept_calibration(store: Store, beginning: str, *, now: int | None = None) -> ServiceCalibration:
    """Let a calibration judge that was a day in shadow. Raises: ConfigurationError before, and for one that is not."""
    at = time.time_ns() if now is None else now
    found = find_calibration(store, beginning)
    name = f"calibration {found.calibration_id}"
    if found.state != "shadow":
        raise ConfigurationError(
            f"calibration {found.calibration_id} is {found.state}, and only one in shadow can be accepted"
        )
    if at < found.created_at + DAY:
        raise ConfigurationError(f"{name} is in shadow until {shown_time(found.created_at + DAY)}; accept it then")
    if not found.shadow.requests:
        raise ConfigurationError(
            f"no request was judged while {name} was in shadow; run ragtrace analyze, with "
            f"{found.models or 'words alone'} as judge"
        )
    if not store.accept_calibration(found.calibration_id, at):
        raise ConfigurationError(
            f"calibration {found.calibration_id} was accepted or replaced by somebody else just now"
        )
    return find_calibration(store, found.calibration_id)


def reject_calibration(store: Store, beginning: str) -> ServiceCalibration:
    """Delete a calibration that is in shadow. Raises: ConfigurationError for one that is not."""
    found = find_calibration(store, beginning)
    if not store.reject_calibration(found.calibration_id):
        raise ConfigurationError(
            f"calibration {found.calibration_id} is {found.state}; only one in shadow can be deleted, since verdicts "
            "name what judged them"
        )
    return found
