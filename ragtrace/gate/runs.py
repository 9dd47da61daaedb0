"""Runs the gate: loads both sides, holds them against the policy, decides, and keeps the report."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from ragtrace.errors import ConfigurationError, InputError, RagtraceError
from ragtrace.gate._breaks import find_breaks, find_changes, stage_shares, version_changes
from ragtrace.gate._judgment import decide, first_broken, judge, questions, small_segments
from ragtrace.gate._metrics import METRICS
from ragtrace.gate._population import Sides, compared, load
from ragtrace.gate._remarks import blind_spots, with_providers
from ragtrace.gate.policy import announcement, check_policy, read_policy
from ragtrace.gate.question_pairs import with_questions
from ragtrace.gate.reports.sentences import headline, next_steps
from ragtrace.gate.selection import Selection, parse
from ragtrace.gate.statistics.means import rows_of
from ragtrace.gate.types import (
    AnchorResult,
    Comparison,
    GateReport,
    LabeledChange,
    Policy,
    Population,
    Rule,
    SelfCheck,
    SideSummary,
)
from ragtrace.label_statistics import change_interval
from ragtrace.store import GateRun, Store
from ragtrace.triage import CorrectedShare, corrected_shares_of

__all__ = [
    "check_itself",
    "chosen_policy",
    "compare",
    "load_sides",
    "read_report",
    "run",
    "save",
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
