"""The figures of the verdict's benchmark as tables of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bench.verdicts.measurement import NATURAL, SOUND, STAGES, Result
from bench.verdicts.model import MIX, Stage
from ragtrace.sample_statistics import wilson

__all__ = ["Mixed", "Point", "mixed", "outcome", "report", "risk_curve", "share", "show_errors"]

OUTCOMES: Final = ("right", "wrong", "suspected", "sound", "nothing")
STATES: Final = ("sound", "broken", "suspected", "not_known")
FEW: Final = 20  # requests; a domain with fewer is not the worst one
_Z: Final = 1.96
_ODD: Final = ("plain", "several")  # what is not odd

Rates: TypeAlias = Mapping[Stage | None, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Shares at the mix of production. precision: of the requests with a named stage those where it is right; recall:
    of the broken requests those with the right stage named; blamed: of all requests those with a named stage."""

    precision: float | None
    recall: float
    blamed: float


@dataclass(frozen=True, slots=True)
class Point:
    """Coverage and risk if the verdicts up to `rule` are believed, those that err least before the others."""

    rule: str
    coverage: float
    risk: float


def report(results: Sequence[Result], *, detail: bool = False) -> None:
    """Print all tables. detail: by domain and fault as well."""
    sound = [each for each in results if each.injector == SOUND]
    natural = [each for each in results if each.injector == NATURAL]
    injected = [each for each in results if each.injector not in (SOUND, NATURAL)]
    domains = list(dict.fromkeys(each.domain for each in results))
    print(f"{len(results)} requests of {len(domains)} domains: {len(sound)} sound, {len(injected)} with an injected "
          f"fault, {len(natural)} that lost the evidence by themselves")  # fmt: skip
    _sound_tables(sound)
    for injector in dict.fromkeys(each.injector for each in injected):
        own = [each for each in injected if each.injector == injector]
        _broken_table(f"faults of the injector {injector}", own, lambda each: f"{each.truth}: {each.fault}")
    _broken_table("injected faults by domain and stage", injected, lambda each: f"{each.domain}: {each.truth}")
    for k, own in _by_depth(injected):
        _broken_table(f"injected faults, {k}", own, lambda each: str(each.truth))
    if detail:
        _broken_table("injected faults by domain and fault", injected, lambda each: f"{each.domain}, {each.sort}")
    _broken_table("natural failures, by what the answer does", natural, lambda each: str(each.fault))
    _broken_table("natural failures by domain", natural, lambda each: f"{each.domain}: {each.truth}")
    _mix_table(sound, injected, domains)
    for injector in dict.fromkeys(each.injector for each in injected):
        own = [each for each in injected if each.injector == injector]
        _mix_table(sound, own, domains, f", faults of {injector}")
    _curve_table(sound, injected)


def show_errors(results: Sequence[Result], count: int) -> None:
    """The first errors of each sort: sound requests blamed, broken ones with a wrong stage or called sound."""
    shown: dict[tuple[str, str], int] = defaultdict(int)
    for each in results:
        found = "blamed" if each.truth is None and each.named else outcome(each) if each.truth else ""
        if found not in ("blamed", "wrong", "sound"):
            continue
        shown[each.sort, found] += 1
        if shown[each.sort, found] <= count:
            _show(each, found)


def outcome(result: Result) -> str:
    """What a broken request's verdict comes to: the right stage named, a wrong one, or none: then the broken one is
    suspected, called sound, or nothing is said of it."""
    if result.truth is None:
        raise ValueError("a sound request has no broken stage")
    if result.named is not None:
        return "right" if result.named == result.truth else "wrong"
    finding = result.findings.get(result.truth)
    state = finding.state if finding else "not_known"
    return state if state in ("suspected", "sound") else "nothing"


def mixed(sound: Sequence[Result], broken: Sequence[Result]) -> Mixed | None:
    """The shares at the mix of production, of the stages that some request breaks; None without sound requests."""
    if not sound:
        return None
    rates: dict[Stage | None, tuple[float, float]] = {None: (_mean(each.named is not None for each in sound), 0.0)}
    for stage in STAGES:
        own = [each for each in broken if each.truth == stage]
        if own:
            named = _mean(each.named is not None for each in own)
            rates[stage] = (named, _mean(each.named == stage for each in own))
    whole = sum(MIX[stage] for stage in rates)
    blamed = sum(MIX[stage] * named for stage, (named, _) in rates.items())
    right = sum(MIX[stage] * hit for stage, (_, hit) in rates.items())
    faulty = whole - MIX[None]
    return Mixed(right / blamed if blamed else None, right / faulty if faulty else 0.0, blamed / whole)


def risk_curve(sound: Sequence[Result], broken: Sequence[Result]) -> list[Point]:
    """Of the verdicts `broken`, `suspected` and `all sound`, each with its stage and reason, how many are wrong at the
    mix of production, and how many requests have one, believing those that err least first.

    A request has the verdict of its first broken stage, else of its first suspected one, else that all are sound; one
    with a stage that is not known and none of those has none.
    """
    counts = defaultdict(int, {stage: sum(each.truth == stage for each in (*sound, *broken)) for stage in MIX})
    whole = sum(weight for stage, weight in MIX.items() if counts[stage])
    said: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in (*sound, *broken):
        found = _said(each)
        if found is not None:
            rule, stage = found
            weight = MIX[each.truth] / counts[each.truth] / whole
            said[rule][0] += weight
            said[rule][1] += weight * (stage != each.truth)
    points, coverage, wrong = [], 0.0, 0.0
    for rule, (weight, errors) in sorted(said.items(), key=lambda item: (item[1][1] / item[1][0], item[0])):
        coverage, wrong = coverage + weight, wrong + errors
        points.append(Point(rule, coverage, wrong / coverage))
    return points


def share(hits: Iterable[bool]) -> str:
    """A share with its bounds and its size."""
    counted = list(hits)
    if not counted:
        return "none"
    low, high = wilson(sum(counted), len(counted), _Z)
    return f"{_mean(counted):6.1%} [{low:5.1%}, {high:5.1%}] of {len(counted)}"


def _sound_tables(sound: Sequence[Result]) -> None:
    tables: list[tuple[str, Callable[[Result], str]]] = [
        ("by domain", lambda each: each.domain),
        ("by depth", _depth),
        ("by kind of question (odd kinds below)", lambda each: f"{'' if each.kind in _ODD else 'odd: '}{each.kind}"),
        ("by application", lambda each: each.setup),
    ]
    for title, key in tables:
        print(f"\n== sound requests {title} ==")
        print(f"{'':24}{'blamed':>33}  {'suspected anywhere':>33}   each stage: sound/broken/suspected/not known, %")
        for name, own in _grouped(sound, key):
            stages = "  ".join(f"{stage} {_states(own, stage)}" for stage in STAGES)
            print(f"{name[:23]:24}{_blamed(own):>33}  {_suspected(own):>33}   {stages}")
        print(f"{'all':24}{_blamed(sound):>33}  {_suspected(sound):>33}   "
              + "  ".join(f"{stage} {_states(sound, stage)}" for stage in STAGES))  # fmt: skip
    for k, own in _by_depth(sound):
        print(f"\n== sound requests by domain, {k} ==")
        for name, part in _grouped(own, lambda each: each.domain):
            print(f"{name[:23]:24}blamed {_blamed(part):>33}   suspected anywhere {_suspected(part):>33}")


def _broken_table(title: str, results: Sequence[Result], key: Callable[[Result], str]) -> None:
    if not results:
        return
    print(f"\n== {title} ==")
    print(f"{'':44}{'right stage named':>33}" + "".join(f"{name:>11}" for name in ("wrong", *OUTCOMES[2:]))
          + "   broken stage called sound, whatever is named")  # fmt: skip
    for name, own in [*_grouped(results, key), ("all", list(results))]:
        found = [outcome(each) for each in own]
        shares = "".join(f"{_mean(each == name for each in found):11.1%}" for name in OUTCOMES[1:])
        called = _mean(bool(each.truth and _state(each, each.truth) == "sound") for each in own)
        print(f"{name[:43]:44}{share(each == 'right' for each in found):>33}{shares}{called:11.1%}")


def _mix_table(sound: Sequence[Result], broken: Sequence[Result], domains: Sequence[str], of: str = "") -> None:
    shares = ", ".join(f"{weight:.0%} {stage or 'sound'}" for stage, weight in MIX.items())
    print(f"\n== at the mix of {shares}{of} ==")
    print(f"{'':24}{'a named stage is right':>24}{'a broken stage is named':>25}{'requests blamed':>18}")
    rows = []
    for name in domains:
        own = [each for each in sound if each.domain == name], [each for each in broken if each.domain == name]
        found = mixed(*own)
        if found is not None:
            rows.append((name, found, min(map(len, own)) >= FEW))
            _mix_row(name, found)
    if not rows:
        return
    named = [found.precision for _, found, _ in rows if found.precision is not None]
    print(f"{'mean of the domains':24}{_percent(sum(named) / len(named) if named else None):>24}"
          f"{_percent(sum(found.recall for _, found, _ in rows) / len(rows)):>25}")  # fmt: skip
    whole = [(found.precision, name) for name, found, enough in rows if enough and found.precision is not None]
    if whole:
        worst, name = min(whole)
        print(f"{'worst domain':24}{_percent(worst):>24}   {name}")
    pooled = mixed(sound, broken)
    if pooled:
        _mix_row("all requests as one", pooled)


def _mix_row(name: str, found: Mixed) -> None:
    print(f"{name[:23]:24}{_percent(found.precision):>24}{_percent(found.recall):>25}{_percent(found.blamed):>18}")


def _curve_table(sound: Sequence[Result], broken: Sequence[Result]) -> None:
    print("\n== risk against coverage at that mix: verdicts that err least first ==")
    print(f"{'believed as well':60}{'coverage':>10}{'risk':>10}")
    for point in risk_curve(sound, broken):
        print(f"{point.rule[:59]:60}{point.coverage:10.1%}{point.risk:10.1%}")


def _said(result: Result) -> tuple[str, Stage | None] | None:
    for state in ("broken", "suspected"):
        for stage in STAGES:
            finding = result.findings.get(stage)
            if finding is not None and finding.state == state:
                return f"{stage} {state}" + (f", {finding.reason}" if finding.reason else ""), stage
    is_sound = all(finding.state == "sound" for finding in result.findings.values())
    return ("all stages sound", None) if is_sound or result.verdict == "no_retrieval_needed" else None


def _show(result: Result, found: str) -> None:
    said = "called sound" if found == "sound" else f"{result.named} named"
    print(f"\n[{result.sort}] {result.domain} {result.question_id} ({result.kind}, {result.setup}): "
          f"{result.truth or 'sound'}, {said}")  # fmt: skip
    print(f"  question: {result.question}")
    print(f"  answer: {result.answer}")
    print(f"  needed {' and '.join('|'.join(group) for group in result.needed) or 'nothing'}; "
          f"packed {', '.join(result.packed)}")  # fmt: skip
    print(f"  {', '.join(f'{name} {value:g}' for name, value in result.scores.items())}")
    states = (f"{stage} {each.state}" + (f" ({each.reason})" if each.reason else "")
              for stage, each in result.findings.items())  # fmt: skip
    print(f"  {'; '.join(states)}")
    for line in result.evidence:
        print(f"  - {line}")


def _by_depth(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    return iter(_grouped(results, _depth))


def _depth(result: Result) -> str:
    return "k = 1..3" if result.depth <= 3 else "k >= 4"


def _grouped(results: Iterable[Result], key: Callable[[Result], str]) -> list[tuple[str, list[Result]]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        groups[key(each)].append(each)
    return sorted(groups.items())


def _blamed(results: Sequence[Result]) -> str:
    return share(any(found.state == "broken" for found in each.findings.values()) for each in results)


def _suspected(results: Sequence[Result]) -> str:
    return share(any(found.state == "suspected" for found in each.findings.values()) for each in results)


def _states(results: Sequence[Result], stage: Stage) -> str:
    states = [state for each in results if (state := _state(each, stage)) is not None]
    return "/".join(f"{100 * _mean(each == state for each in states):3.0f}" for state in STATES) if states else "none"


def _state(result: Result, stage: Stage) -> str | None:
    finding = result.findings.get(stage)
    return None if finding is None else finding.state


def _mean(hits: Iterable[bool]) -> float:
    counted = list(hits)
    return sum(counted) / len(counted) if counted else 0.0


def _percent(value: float | None) -> str:
    return "none named" if value is None else f"{value:.1%}"
