"""Rules with one thing taken out of them, each of which must fail the scenarios: `python -m tests.alerts.mutants`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from ragtrace.alerts import render, write

Files: TypeAlias = dict[str, str]


class Mutant(NamedTuple):
    """What is taken out, from which file, and the scenario that notices."""

    name: str
    file: str
    change: Callable[[str], str]
    scenario: str


def _without(pattern: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, "", text)


def _with(pattern: str, new: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, new, text)


_QUIET: Final = r"unless on \(service, segment\) "
_RELEASED: Final = r"and on \(service\) \(max by \(service\) \(ragtrace_release_timestamp"
_BY_RULE: Final = r"on \(service, segment, reference, judge\)"


def _nothing_usual(text: str) -> str:
    """Every share counts as a rise from nothing."""
    text = re.sub(r"asin\(sqrt\(ragtrace:sli_doubted:usual\w+\)\)", "0", text)
    return re.sub(r" - ragtrace:sli_doubted:usual\w+", "", text)


MUTANTS: Final = (
    Mutant(
        "no gate",
        "recording.yml",
        _with('scope="conditional"', 'scope="all"'),
        "slow recall failure",
    ),
    Mutant(
        "no stratum filter",
        "recording.yml",
        _without(', stratum="random"'),
        "flagged requests are bad",
    ),
    Mutant(
        "no minimum",
        "recording.yml",
        _without(r"\n +and \(ragtrace:sli_requests.* >= .*\)"),
        "low traffic, all bad",
    ),
    Mutant(
        "a handful pages",
        "recording.yml",
        _without(r"\n +and \(ragtrace:sli_requests:increase(30m|1h) >= 9\)"),
        "a handful of requests, all bad",
    ),
    Mutant(
        "no bound",
        "recording.yml",
        _with(r"\(ragtrace:sli_bad:wilson(\w+) >", r"(ragtrace:sli_bad:ratio_rate\1 >"),
        "few requests, bad by chance",
    ),
    Mutant(
        "no release condition",
        "alerts.yml",
        _without(rf"\n +{_RELEASED}.*"),
        "citation drop without a release",
    ),
    Mutant(
        "no silence beside upstream",
        "alerts.yml",
        _without(rf"\n +{_QUIET}ragtrace:sli_burning:page.*"),
        "recall failure that leaks downstream",
    ),
    Mutant(
        "no stagger",
        "alerts.yml",
        _with(r"for: (4m|6m|8m)\n", "for: 2m\n"),
        "later stage burns first",
    ),
    Mutant(
        "a ticket beside its own page",
        "alerts.yml",
        _with(rf'\n +{_QUIET}max_over_time\(ragtrace:sli_burning:page\{{stage="retrieval"\}}\[\w+\]\)\)', ")"),
        "long recall failure",
    ),
    Mutant(
        "a ticket after its own page",
        "alerts.yml",
        _with(r'max_over_time\((ragtrace:sli_burning:page\{stage="retrieval"\})\[\w+\]\)', r"\1"),
        "long recall failure",
    ),
    Mutant(
        "no good counter, no alert",
        "recording.yml",
        _without(r"\n +or 0 \* ragtrace:sli_requests.*"),
        "no request was ever good",
    ),
    Mutant(
        "oracle and proxy in one ratio",
        "recording.yml",
        _without(", reference"),
        "oracle burns beside much healthy proxy",
    ),
    Mutant(
        "oracle and proxy page twice",
        "recording.yml",
        _with(r"max by \(service, segment, stage\)", "max by (service, segment, stage, reference)"),
        "oracle and proxy burn",
    ),
    Mutant(
        "judges in one ratio",
        "recording.yml",
        _without(", judge"),
        "one judge burns beside another that sees much",
    ),
    Mutant(
        "an alert for each judge",
        "recording.yml",
        _with(r"max by \(service, segment, stage\)", "max by (service, segment, stage, judge)"),
        "the judge changes while a page burns",
    ),
    Mutant(
        "judges in one share",
        "recording.yml",
        _without(", judge"),
        "another judge suspects more",
    ),
    Mutant(
        "a rise that may be chance",
        "recording.yml",
        _without(r"\n +and ragtrace:sli_doubted:z\w+ > 4"),
        "few requests, suspected by chance",
    ),
    Mutant(
        "a rise of next to nothing",
        "recording.yml",
        _without(r" >= 0\.\d+(?=\n +and 2 \* \(asin)|\n +and 2 \* \(asin.*>= 0\.\d+"),
        "a small rise in many requests",
    ),
    Mutant(
        "a rise from nothing",
        "recording.yml",
        _nothing_usual,
        "suspicion that was always large",
    ),
    Mutant(
        "a baseline of a handful",
        "recording.yml",
        _without(r" >= 30\b"),
        "suspicion before anything is usual",
    ),
    Mutant(
        "a rise began at every stage that rose",
        "recording.yml",
        _without(rf"\n +unless {_BY_RULE} \(\(ragtrace:sli_doubted:rise.*"),
        "a rise that began at retrieval or not: 0.9 of the least",
    ),
    Mutant(
        "only a clear rise began anywhere",
        "recording.yml",
        _without(rf"\n +or\n +ragtrace:sli_doubted:clear_rise.*\n +and {_BY_RULE} \(\(ragtrace:sli_doubted:rise.*"),
        "a later stage rises with an earlier one",
    ),
    Mutant(
        "a rise began at any earlier stage",
        "recording.yml",
        _without(rf"\n +and {_BY_RULE} \(\(ragtrace:sli_doubted:rise.*"),
        "a later stage is suspected more",
    ),
    Mutant(
        "answers far from their questions tell nothing",
        "recording.yml",
        _without(r"\n +or\n +ragtrace:sli_distant:clear_rise.*(?:\n +(?:and|unless) on .*)*"),
        "more answers are far from their questions",
    ),
    Mutant(
        "a rise began where anything rose at all",
        "recording.yml",
        _with(rf"(\) > {_BY_RULE}) 0\.25 \*", r"\1 0 *"),
        "a later stage is suspected more",
    ),
    Mutant(
        "a rise began where it is not sure that it did",
        "recording.yml",
        _without(rf" - {_BY_RULE} 1\.75 \* ragtrace:sli_doubted:error\w+\{{.*?\}}"),
        "a rise that began at retrieval or not: 1.1 of the least",
    ),
    Mutant(
        "a rise began later where it is not sure that it did",
        "recording.yml",
        _without(rf" \+ {_BY_RULE} 1\.75 \* ragtrace:sli_doubted:error\w+\{{.*?\}}"),
        "a rise that began at retrieval or not: 0.9 of the least",
    ),
    Mutant(
        "suspicion beside a page",
        "alerts.yml",
        _with(r"(ragtrace:sli_doubted:risen\w+\{.*\})(?:\n +unless .*?\[\w+\]\))+", r"\1"),
        "suspicion beside an earlier stage's page",
    ),
    Mutant(
        "requests are gone while nothing is scraped",
        "alerts.yml",
        _without(r"\n +and on \(\) \(max\(up.*"),
        "the exporter was down for ten minutes",
    ),
    Mutant(
        "announced releases count",
        "alerts.yml",
        _without(r" <= time\(\)"),
        "citation drop before a release that is announced",
    ),
    Mutant(
        "releases of any component count",
        "alerts.yml",
        _with(r'(timestamp_seconds)\{component=~"[^"]*"\}', r"\1"),
        "citation drop after a release of another component",
    ),
    Mutant(
        "a service that rests is stale",
        "alerts.yml",
        _without(r"\n +and on \(service\) sum by \(service\) \(increase\(ragtrace_requests_total\[\w+\]\)\) > 0"),
        "a service that rests",
    ),
    Mutant(
        "absent without an expectation",
        "alerts.yml",
        _with(r"\)\) >= 10\b", ")) > 0"),
        "a stage that is counted rarely",
    ),
    Mutant(
        "greetings are silence",
        "alerts.yml",
        _with("no_retrieval_needed", "healthy"),
        "requests that need no retrieval",
    ),
    Mutant(
        "what cannot be judged is silence",
        "alerts.yml",
        _without(r' or increase\(ragtrace_sli_unjudged_requests_total\{scope="all", stratum="random"\}\[\w+\]\)'),
        "a stage is judged no more",
    ),
    Mutant(
        "a handful of requests cannot be judged",
        "alerts.yml",
        _with(r"\) >= 30\)\n", ") >= 1)\n"),
        "few requests that cannot be judged",
    ),
    Mutant(
        "one stage is all",
        "alerts.yml",
        _with(r"max by \(service\) \((\n +\(sum)", r"min by (service) (\1"),
        "one stage can be judged",
    ),
    Mutant(
        "growth without a past",
        "alerts.yml",
        _with(r"> 2 \* ", "> 0 * "),
        "what was always large",
    ),
    Mutant(
        "whoever is used less is starved",
        "alerts.yml",
        _without(r"\n +and \(ragtrace:provider_shown:now.*"),
        "a provider is starved by a release",
    ),
    Mutant(
        "whoever deserves less is starved",
        "alerts.yml",
        _without(r"\n +(and|unless) on \(service, provider\) \(ragtrace:provider_deserved.*"),
        "a provider is starved by a release",
    ),
    Mutant(
        "starved by a release of the model",
        "alerts.yml",
        _without(
            r'\n +and on \(service\) \(max by \(service\) \(ragtrace_release_timestamp_seconds\{component=~"retr.*'
        ),
        "a provider is starved, and the model was released",
    ),
    Mutant(
        "starved beside a page of ranking",
        "alerts.yml",
        _without(r"\n +unless on \(service\) max_over_time.*"),
        "a provider is starved while ranking burns",
    ),
)


def failing(mutant: Mutant | None, scenario: str) -> bool:
    """Whether the scenario fails under the mutant, or under the rules as they are."""
    files = render()
    if mutant is not None:
        mutated = mutant.change(files[mutant.file])
        assert mutated != files[mutant.file], f"{mutant.name} takes out nothing; mend its pattern"
        files[mutant.file] = mutated
    name, body = _holding(files, scenario)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files | {name: body})
        command = [str(shutil.which("promtool")), "test", "rules", str(Path(folder) / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:" in done.stdout + done.stderr, done.stdout + done.stderr  # no broken syntax
    return done.returncode != 0


def _holding(files: Files, scenario: str) -> tuple[str, str]:
    """The name of the file of tests that has the scenario, and its text with that scenario alone."""
    for name in (one for one in files if one.endswith("tests.yml")):
        body: Mapping[str, Any] = yaml.safe_load(files[name])
        kept = [test for test in body["tests"] if test["name"] == scenario]
        if kept:
            return name, yaml.safe_dump({**body, "tests": kept}, sort_keys=False)
    raise AssertionError(f"there is no scenario {scenario!r}")


def main() -> int:
    """Run every mutant; 1 when one of them survives."""
    if shutil.which("promtool") is None:
        print("promtool was not found; install it (on Debian: apt-get install prometheus)", file=sys.stderr)
        return 2
    survivors = [mutant.name for mutant in MUTANTS if not _killed(mutant)]
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} mutants fail their scenario")
    return 1 if survivors else 0


def _killed(mutant: Mutant) -> bool:
    killed = failing(mutant, mutant.scenario)
    print(f"{'fails as it must' if killed else 'SURVIVES':18} {mutant.name}: {mutant.scenario}", flush=True)
    return killed


if __name__ == "__main__":
    sys.exit(main())
