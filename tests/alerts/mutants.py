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


_UPSTREAM: Final = r"unless on \(service, segment\) ragtrace:sli_burning:page\{metric=~"
_OWN: Final = r"unless on \(service, segment\) max_over_time\(ragtrace:sli_burning:page\{metric="
_RELEASED: Final = r"and on \(service\) \(max by \(service\) \(ragtrace_release_timestamp"

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
        _without(rf"\n +{_UPSTREAM}.*"),
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
        _with(rf'\n +{_OWN}"qc".*\)', ")"),
        "long recall failure",
    ),
    Mutant(
        "a ticket after its own page",
        "alerts.yml",
        _with(r'max_over_time\((ragtrace:sli_burning:page\{metric="qc"\})\[\w+\]\)', r"\1"),
        "long recall failure",
    ),
    Mutant(
        "no good counter, no alert",
        "recording.yml",
        _without(r"\n +or 0 \* .*"),
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
        _with(r"max by \(service, segment, metric\)", "max by (service, segment, metric, reference)"),
        "oracle and proxy burn",
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
        "contradictions page beside answers",
        "alerts.yml",
        _with(r'qc\|eo\|ac"', 'qc|eo"'),
        "grounding failure",
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
        "an indicator that counts rarely",
    ),
    Mutant(
        "growth without a past",
        "alerts.yml",
        _with(r"> 2 \* ", "> 0 * "),
        "what was always large",
    ),
)


def failing(mutant: Mutant | None, scenario: str) -> bool:
    """Whether the scenario fails under the mutant, or under the rules as they are."""
    files = render()
    if mutant is not None:
        mutated = mutant.change(files[mutant.file])
        assert mutated != files[mutant.file], f"{mutant.name} takes out nothing; mend its pattern"
        files[mutant.file] = mutated
    files["tests.yml"] = _only(files["tests.yml"], scenario)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files)
        command = [str(shutil.which("promtool")), "test", "rules", str(Path(folder) / "tests.yml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:" in done.stdout + done.stderr, done.stdout + done.stderr  # no broken syntax
    return done.returncode != 0


def _only(tests: str, scenario: str) -> str:
    body: Mapping[str, Any] = yaml.safe_load(tests)
    kept = [test for test in body["tests"] if test["name"] == scenario]
    assert kept, f"there is no scenario {scenario!r}"
    return yaml.safe_dump({**body, "tests": kept}, sort_keys=False)


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
