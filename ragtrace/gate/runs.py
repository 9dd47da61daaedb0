"""Runs of the gate: load both sides, hold them against the policy, decide, and keep the report; of replays, or live.

A canary in live traffic seldom gets the mix of requests that the rest gets, and a harder mix looks like a worse
version. So the candidate's requests are weighted to the baseline's shares of segments (direct standardization): over
all requests, the difference is then the mean over segments of the differences within each, by the baseline's mix. A
segment that one side has next to nothing of cannot be standardized: it is left out and named, and where such segments
hold much of the baseline's traffic the candidate cannot pass. Intervals take the weights as they are, which counts the
differences among segments as noise, so that they are rather too wide than too narrow.
Source: Fleiss, Levin and Paik (2003), "Statistical Methods for Rates and Proportions", chapter 19.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.errors import ConfigurationError, InputError, RagtraceError
from ragtrace.formats import percent, written_time
from ragtrace.gate._breaks import find_breaks, find_changes, stage_shares, version_changes
from ragtrace.gate._judgment import decide, first_broken, judge, questions, small_segments
from ragtrace.gate._means import rows_of
from ragtrace.gate._metrics import METRICS
from ragtrace.gate._population import Sides, compared, load
from ragtrace.gate._remarks import blind_spots, with_providers
from ragtrace.gate.policy import announcement, check_policy, read_policy
from ragtrace.gate.question_pairs import with_questions
from ragtrace.gate.reports.content import MOST_LEFT_OUT, share_left_out
from ragtrace.gate.reports.sentences import headline, next_steps
from ragtrace.gate.selection import Selection, parse
from ragtrace.gate.types import (
    AnchorResult,
    Comparison,
    GateReport,
    LabeledChange,
    Policy,
    Population,
    Rule,
    SegmentMix,
    SelfCheck,
    SideSummary,
)
from ragtrace.sample_statistics import change_interval
from ragtrace.store import GateRun, Store
from ragtrace.triage import CorrectedShare, corrected_shares_of

__all__ = [
    "check_itself",
    "chosen_policy",
    "compare",
    "compare_live",
    "judge_live",
    "live_selection",
    "load_sides",
    "read_report",
    "run",
    "save",
    "standardize",
    "with_anchor",
    "with_texts_and_labels",
]


def run(
    baseline: str,
    candidate: str,
    *,
    policy: Policy | Path | str | None = None,
    store: str | None = None,
    service: str | None = None,
    seed: int | None = None,
    anchor: str | None = None,
    anchor_blocks: bool = False,
) -> GateReport:
    """Compare two selections. policy: a policy or its file; None: the default one. store: the URL of the store that
    selections without a source are read from. service: of selections that name none. seed: in place of the policy's.
    anchor: an old, fixed selection that the candidate is held against as well; anchor_blocks: whether that may block.

    Raises: ConfigurationError, InputError, StoreError, MissingExtraError.
    """
    now = time.time_ns()
    chosen = chosen_policy(policy, seed)
    report = _compared(parse("--baseline", baseline, now), parse("--candidate", candidate, now), chosen, store, service)
    if anchor is not None:
        old = parse("--anchor", anchor, now)
        against = _compared(old, parse("--candidate", candidate, now), chosen, store, service)
        report = with_anchor(report, against, blocks=anchor_blocks)
    return with_texts_and_labels(report, store)


def with_anchor(report: GateReport, against: GateReport, *, blocks: bool = False) -> GateReport:
    """The report, with what its candidate lost since the anchor. against: the same candidate held against the anchor.

    What many releases lost together, each of them less than the margin, shows there. blocks: whether a loss that would
    block against a baseline blocks here as well. Both comparisons hold the policy's alpha, so that at most 2 alpha of
    the candidates that are as good as both are then blocked.
    """
    worse = tuple(cell for cell in against.cells if cell.outcome == "fail" and cell.family != "floors")
    result = AnchorResult(
        anchor=against.baseline,
        paired=against.paired,
        pairs=against.pairs,
        decision=against.decision,
        blocks=blocks,
        worse=worse,
    )
    harmed = blocks and any(cell.blocks for cell in worse)
    found = msgspec.structs.replace(
        report,
        anchor=result,
        decision="block" if harmed else report.decision,
        first_broken=report.first_broken or (first_broken(worse) if harmed else None),
        warnings=(
            *report.warnings,
            *(f"against the anchor: {each}" for each in against.warnings if each not in report.warnings),
        ),
    )
    return msgspec.structs.replace(found, headline=headline(found), next_steps=next_steps(found))


def _compared(
    baseline: Selection, candidate: Selection, policy: Policy, store: str | None, service: str | None
) -> GateReport:
    """One side held against another."""
    sides = (baseline, candidate)
    loaded = load_sides(sides, policy, store, service)
    before, after = loaded.populations
    controlled = all(side.is_controlled for side in sides)
    report = compare(before, after, policy, service=loaded.service, same_questions=controlled)
    return with_providers(report, sides, (before, after), store)


def with_texts_and_labels(report: GateReport, store: str | None) -> GateReport:
    """The report with the texts of its questions, and with the rates that people's labels give to the versions of both
    sides, where both have them. store: the URL that selections without a source are read from."""
    report = with_questions(report, store)
    if report.service is None:
        return report
    try:
        before, after = (_by_labels(side, report.service, store) for side in (report.baseline, report.candidate))
    except RagtraceError as error:  # a URL without its password, of a store that is gone since
        warning = f"people's labels cannot be read: {error}"
        return msgspec.structs.replace(report, warnings=(*report.warnings, warning))
    found = tuple(_labeled_change(before[stage], after[stage]) for stage in before if stage in after)
    return msgspec.structs.replace(report, by_labels=found)


def _by_labels(side: SideSummary, service: str, store: str | None) -> dict[str, CorrectedShare]:
    """The corrected rates of a side that is of one set of versions, by stage; a mixture has none."""
    selection = parse("selection", side.name)
    url = selection.url or store
    versions = {component: version for component, counts in side.versions.items() for version in counts}
    is_uniform = all(list(counts.values()) == [side.requests] for counts in side.versions.values())
    if url is None or selection.file or selection.others or not (versions and is_uniform):
        return {}
    with Store.open(url) as opened:
        return corrected_shares_of(opened, service, versions)


def _labeled_change(before: CorrectedShare, after: CorrectedShare) -> LabeledChange:
    low, high = change_interval((before.share, before.low, before.high), (after.share, after.low, after.high))
    return LabeledChange(stage=before.stage, baseline=before, candidate=after, low=low, high=high)


def load_sides(selections: Sequence[Selection], policy: Policy, store: str | None, service: str | None) -> Sides:
    """The sides, with the metrics of a policy. Raises: InputError, StoreError."""
    metrics = [rule.metric for rule in policy.rules]
    return load(selections, store=store, service=service, metrics=metrics, reference=policy.reference)


def check_itself(
    baseline: str,
    candidate: str | None = None,
    *,
    policy: Policy | Path | str | None = None,
    store: str | None = None,
    service: str | None = None,
    seed: int | None = None,
    runs: int = 1_000,
    progress: Callable[[int], None] | None = None,
) -> SelfCheck:
    """Split one selection at random many times: how often would the policy block it against itself?

    candidate: another run of the same version, as of a second replay; then the sides of each pair are exchanged at
    random instead. The other arguments and errors are those of `run`. progress: told how many splits are done.
    """
    from ragtrace.gate._selfcheck import selfcheck

    chosen = chosen_policy(policy, seed)
    given = (("baseline", baseline), ("candidate", candidate))
    sides = [(side, parse(f"--{side}", text)) for side, text in given if text is not None]
    loaded = load_sides([selection for _, selection in sides], chosen, store, service)
    for (side, _), population in zip(sides, loaded.populations, strict=True):
        _check_population(side, population)
    _check_judges({side: population for (side, _), population in zip(sides, loaded.populations, strict=True)})
    rules = tuple(rule for rule in chosen.rules if not (rule.optional and _is_undefined(loaded.populations[0], rule)))
    source = loaded.populations[0] if len(sides) == 1 else _twins(*loaded.populations)
    return selfcheck(source, msgspec.structs.replace(chosen, rules=rules), runs=runs, progress=progress)


def _twins(one: Population, two: Population) -> Comparison:
    """Two runs of one version, pair by pair. Raises: InputError for two versions, or without a common question."""
    changed = version_changes(one, two)
    if changed:
        versions = ", ".join(f"{each.component} {each.baseline} and {each.candidate}" for each in changed)
        raise InputError(
            f"baseline and candidate are two versions ({versions}), and a self-check needs two runs of one; replay "
            "that version again under another name, or compare the two by ragtrace gate run"
        )
    return compared(one, two, "paired")


def chosen_policy(given: Policy | Path | str | None, seed: int | None = None) -> Policy:
    """A policy, or that of a file, or the default one; seed: in place of its own. Raises: ConfigurationError."""
    policy = given if isinstance(given, Policy) else read_policy(given)
    changed = policy if seed is None else msgspec.structs.replace(policy, seed=seed)
    check_policy(changed)
    return changed


def compare(
    baseline: Population,
    candidate: Population,
    policy: Policy,
    *,
    service: str | None = None,
    same_questions: bool = False,
) -> GateReport:
    """Judge a candidate. same_questions: both sides were asked the same ones, so that they are paired or refused.

    Raises: ConfigurationError for a policy that cannot hold, InputError for populations that cannot be compared.
    """
    check_policy(policy)
    _check_population("baseline", baseline)
    _check_population("candidate", candidate)
    _check_judges({"baseline": baseline, "candidate": candidate})
    comparison = compared(baseline, candidate, policy.pairing, expected=same_questions)
    resolved, left_out = _resolved(policy, comparison)
    cells = judge(comparison, resolved)
    asked = min(len(baseline), len(candidate)) if comparison.pairs is None else len(comparison.pairs)
    decision, small = decide(cells, resolved), small_segments(rows_of(comparison), resolved)
    needed = questions(cells, resolved, asked) if decision == "undecided" else None
    report = GateReport(
        decision=decision,
        baseline=_summary(baseline, comparison.unmatched[0]),
        candidate=_summary(candidate, comparison.unmatched[1]),
        paired=comparison.paired,
        pairs=None if comparison.pairs is None else len(comparison.pairs),
        alpha=policy.alpha,
        cells=cells,
        stages=stage_shares(comparison),
        breaks=find_breaks(comparison, cells, small),
        changes=find_changes(comparison, cells, small, policy.alpha),
        warnings=(*blind_spots(comparison, resolved, left_out), *_announced(comparison, resolved, needed)),
        policy=resolved,
        service=service,
        first_broken=first_broken(cells),
        needed=needed,
        small=small,
        unchanged={stage: int(marks.sum()) for stage, marks in comparison.unchanged.items()},
        run_id=uuid.uuid4().hex,
        created_at=time.time_ns(),
    )
    return msgspec.structs.replace(report, headline=headline(report), next_steps=next_steps(report))


def _check_population(side: str, population: Population) -> None:
    """Whether a side can be judged. Raises: InputError."""
    if not len(population):
        raise InputError(f"the {side} {population.name!r} is empty; give one with requests")
    if len(set(population.request_ids)) < len(population):
        raise InputError(f"the {side} {population.name!r} holds a request twice; give each request once")
    if not (np.isfinite(population.weights) & (population.weights > 0)).all():
        raise InputError(f"the {side} {population.name!r} has a weight that is not above 0; give inverse probabilities")
    for metric, values in population.scores.items():
        largest = METRICS[metric].largest if metric in METRICS else np.inf
        defined = values[~np.isnan(values)]
        wrong = defined[~(np.isfinite(defined) & (defined >= 0) & (defined <= largest))]
        if len(wrong):
            allowed = "0 or more" if largest > 1 else "from 0 to 1"
            raise InputError(
                f"{metric} of a request of the {side} is {wrong[0]:g}, and must be {allowed}; NaN stands for undefined"
            )


def _check_judges(sides: Mapping[str, Population]) -> None:
    """What was judged by different rules, models or calibrations differs though nothing else does."""
    versions = {version for side in sides.values() for version in side.analyzer_versions}
    if len(versions) > 1:
        raise InputError(
            f"the requests were analyzed by different versions ({_listed(sides, _analyzer_counts)}), whose states and "
            "scores cannot be compared; run ragtrace analyze --redo"
        )
    if len({judge for side in sides.values() for judge in side.judges}) > 1:
        raise InputError(
            f"the requests were not judged alike ({_listed(sides, _judge_names)}), and their states and scores cannot "
            "be compared; run ragtrace analyze --again, with the same --verifier for both, or with none"
        )


def _listed(sides: Mapping[str, Population], told: Callable[[Population], str]) -> str:
    return "; ".join(f"{name}: {told(side)}" for name, side in sides.items())


def _analyzer_counts(side: Population) -> str:
    return ", ".join(f"{number} by {version}" for version, number in sorted(side.analyzer_versions.items()))


def _judge_names(side: Population) -> str:
    return " and ".join(judge.name for judge in sorted(side.judges)) or "nothing to judge"


def _announced(comparison: Comparison, policy: Policy, needed: int | None) -> tuple[str, ...]:
    """What the numbers of questions alone decide."""
    rows = rows_of(comparison)
    sizes = {name: rows.within(name).size for name in {*rows.baseline.segments, *rows.candidate.segments}}
    return announcement(sizes, policy, paired=comparison.paired, needed=needed)


def _resolved(policy: Policy, comparison: Comparison) -> tuple[Policy, list[str]]:
    """The policy with the rules that these sides call for, and the metrics of the rules that were left out."""
    sides = (comparison.baseline, comparison.candidate)
    changed = {each.component for each in version_changes(*sides)}
    left_out = [
        rule.metric for rule in policy.rules if rule.optional and all(_is_undefined(side, rule) for side in sides)
    ]
    is_proxy = any(side.reference == "proxy" for side in sides)
    rules = tuple(_suited(rule, changed, is_proxy) for rule in policy.rules if rule.metric not in left_out)
    if not rules:
        raise InputError("neither side defines any metric of the policy; analyze the requests, or name other metrics")
    return msgspec.structs.replace(policy, rules=rules), left_out


def _suited(rule: Rule, changed: set[str], is_proxy: bool) -> Rule:
    """A guardrail after a change that makes it one; a warning where gold evidence is wanted and there is none."""
    rule = msgspec.structs.replace(rule, guardrail=rule.guardrail or bool(changed & set(rule.guardrail_after)))
    return msgspec.structs.replace(rule, action="warn", segment_action="warn") if rule.gold and is_proxy else rule


def _is_undefined(population: Population, rule: Rule) -> bool:
    values = population.scores.get(rule.metric)
    return values is None or bool(np.isnan(values).all())


def _summary(population: Population, unmatched: int) -> SideSummary:
    return SideSummary(
        name=population.name,
        requests=len(population),
        unmatched=unmatched,
        excluded=dict(population.excluded),
        versions={component: dict(counts) for component, counts in population.versions.items()},
        analyzer_versions=dict(population.analyzer_versions),
        judges=tuple(judge.name for judge in sorted(population.judges)),
        since=population.since,
        until=population.until,
    )


def save(store: Store, report: GateReport) -> None:
    """Keep a report in a store, where triage finds it by the versions of its candidate. The texts of its questions are
    left out: they stay where they are, as long as retention and erasure let them."""
    versions = tuple(
        (component, version) for component, counts in report.candidate.versions.items() for version in counts
    )
    run = GateRun(
        run_id=report.run_id,
        service=report.service or "",
        created_at=report.created_at,
        decision=report.decision,
        baseline=report.baseline.name,
        candidate=report.candidate.name,
        first_broken=report.first_broken,
        versions=versions,
    )
    store.add_gate_run(run, msgspec.json.encode(msgspec.structs.replace(report, questions=())))


def read_report(store: Store, run_id: str) -> GateReport:
    """The report of the run whose id begins so, without texts (`with_questions` reads them).

    Raises: ConfigurationError where there is none, or more than one.
    """
    body = store.gate_report(run_id)
    if body is None:
        raise ConfigurationError.of("gate run", run_id, "the id of one run; ragtrace gate list shows them")
    return msgspec.json.decode(body, type=GateReport)


_FEWEST: Final = 10  # requests of each side, below which a segment cannot be standardized
_HEAVY: Final = 10.0  # a factor from which on a few requests carry a segment


def judge_live(
    service: str,
    baseline: str | None,
    candidate: str,
    *,
    since: int,
    until: int,
    policy: Policy,
    store: str | None,
) -> GateReport:
    """Hold the requests of one set of versions against those of another in the same window, as independent samples.

    baseline, candidate: `COMPONENT=VERSION[,...]`; without a baseline all that ran beside the candidate is it: requests
    that carried other versions of its components. since, until: nanoseconds. policy: checked.
    Raises: ConfigurationError, InputError, StoreError.
    """
    canary = live_selection("--candidate", candidate, service, since, until)
    beside = (
        canary.replace("version:", "other:", 1)
        if baseline is None
        else live_selection("--baseline", baseline, service, since, until)
    )
    selections = [parse("--baseline", beside), parse("--candidate", canary)]
    before, after = load_sides(selections, policy, store, service).populations
    report = compare_live(before, after, policy, service=service)
    return with_texts_and_labels(with_providers(report, selections, (before, after), store), store)


def compare_live(
    baseline: Population, candidate: Population, policy: Policy, *, service: str | None = None
) -> GateReport:
    """Judge a candidate in the segments that both sides share. Where those that are left out hold too much of the
    baseline's traffic, nothing passes.

    Raises: ConfigurationError, InputError.
    """
    before, after, mix = standardize(baseline, candidate)
    report = compare(before, after, msgspec.structs.replace(policy, pairing="unpaired"), service=service)
    report = msgspec.structs.replace(report, mix=mix, warnings=(*report.warnings, *_remarks(mix)))
    if report.decision == "block" or share_left_out(report) <= MOST_LEFT_OUT:
        return report
    report = msgspec.structs.replace(report, decision="undecided")
    return msgspec.structs.replace(report, headline=headline(report), next_steps=next_steps(report))


def live_selection(option: str, versions: str, service: str, since: int, until: int) -> str:
    """The selection of requests with these versions in a window. versions: `model=m-8`, or `version=model=m-8`.

    Raises: ConfigurationError for anything else.
    """
    text = versions.strip()
    for prefix in ("version:", "version="):
        if text.startswith(prefix) and "=" in text[len(prefix) :]:
            text = text[len(prefix) :]
            break
    if "&" in text or "=" not in text:
        raise ConfigurationError.of(option, versions, "COMPONENT=VERSION[,...], as in model=m-8")
    return f"version:{text}&service:{service}&window:{written_time(since)}..{written_time(until)}"


def standardize(baseline: Population, candidate: Population) -> tuple[Population, Population, tuple[SegmentMix, ...]]:
    """Both sides in the segments that they share, the candidate's requests weighted to the baseline's mix; and the mix.

    Where no segment has enough requests, all that both sides have are kept: the gate then says how many it takes.

    Raises: InputError where the sides have no segment in common.
    """
    shares = _shares(baseline), _shares(candidate)
    counts = _counts(baseline), _counts(candidate)
    names = sorted({*counts[0], *counts[1]})
    fewest = {name: min(each.get(name, 0) for each in counts) for name in names}
    shared = [name for name in names if fewest[name] >= _FEWEST] or [name for name in names if fewest[name]]
    if not shared:
        raise InputError(
            f"the baseline {baseline.name!r} and the candidate {candidate.name!r} have no segment in common; give a "
            "longer window by --since"
        )
    whole = [sum(side[name] for name in shared) for side in shares]
    factors = {name: shares[0][name] / whole[0] / (shares[1][name] / whole[1]) for name in shared}
    mix = tuple(
        SegmentMix(
            segment=name,
            baseline=shares[0].get(name, 0.0),
            candidate=shares[1].get(name, 0.0),
            factor=factors.get(name),
        )
        for name in names
    )
    before, after = _within(baseline, factors), _within(candidate, factors)
    weights = after.weights * np.array([factors[name] for name in after.segments])
    return before, replace(after, weights=weights), mix


def _counts(side: Population) -> dict[str, int]:
    names, numbers = np.unique(np.array(side.segments, dtype=object), return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def _shares(side: Population) -> dict[str, float]:
    segments = np.array(side.segments, dtype=object)
    whole = float(side.weights.sum())
    return {name: float(side.weights[segments == name].sum()) / whole for name in set(side.segments)}


def _within(side: Population, segments: Mapping[str, float]) -> Population:
    """The requests of these segments; the others are counted as excluded."""
    rows: NDArray[np.int64] = np.flatnonzero([name in segments for name in side.segments])
    left_out = len(side) - len(rows)
    excluded = (
        {**side.excluded, "in a segment that one side has too little of": left_out} if left_out else side.excluded
    )
    return replace(
        side,
        request_ids=[side.request_ids[row] for row in rows],
        questions=[side.questions[row] for row in rows],
        segments=[side.segments[row] for row in rows],
        clusters=[side.clusters[row] for row in rows],
        causes=[side.causes[row] for row in rows],
        weights=side.weights[rows],
        scores={metric: values[rows] for metric, values in side.scores.items()},
        states={stage: codes[rows] for stage, codes in side.states.items()},
        excluded=excluded,
        traces=(),  # of pairs alone
    )


def _remarks(mix: tuple[SegmentMix, ...]) -> list[str]:
    found = []
    left_out = [each for each in mix if each.factor is None]
    if left_out:
        names = ", ".join(each.segment or "(none)" for each in left_out[:3]) + (" ..." if len(left_out) > 3 else "")
        shares = [
            percent(sum(share)) for share in zip(*((each.baseline, each.candidate) for each in left_out), strict=True)
        ]
        found.append(
            f"segments with fewer than {_FEWEST} requests on a side are left out: {names} ({shares[0]} of the "
            f"baseline's requests, {shares[1]} of the candidate's)"
        )
    found += [
        f"requests of the candidate in segment {each.segment or '(none)'} count {each.factor:.0f} times: it got "
        f"{percent(each.candidate)} of its requests there, the baseline {percent(each.baseline)}"
        for each in mix
        if each.factor is not None and each.factor >= _HEAVY
    ]
    return found
