"""Alerts: from the metric registry and `alerts/objectives.yaml` to the files that Prometheus, Alertmanager and promtool
read: rendered, written, checked and tested.

Alertmanager's say who gets what, and what keeps still beside an earlier stage's page. Where promtool or amtool is
missing, what can be checked without them is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from ragtrace import installation
from ragtrace.alerts._platform import platform_alerts
from ragtrace.alerts._platform_scenarios import long_scenarios, platform_scenarios, slow_scenarios
from ragtrace.alerts._policy import PLATFORM, AlertPolicy, known_registry, policy
from ragtrace.alerts._recording_rules import Group, quoted, recording_groups
from ragtrace.alerts._scenarios import indicator_scenarios, low_traffic_scenarios, suspicion_scenarios
from ragtrace.alerts._stage_alerts import drift_alerts, indicator_alerts, suspicion_alerts
from ragtrace.alerts._traffic import STEP, AlertScenario, scenario_test
from ragtrace.alerts.settings import read_settings
from ragtrace.errors import ConfigurationError
from ragtrace.registry.authored import Registry

__all__ = ["FILES", "Checked", "alertmanager", "check", "generated", "render", "run_tests", "write"]


Routing: TypeAlias = dict[str, Any]

_SEVERITIES: Final = ("page", "ticket")
_PLACEHOLDER: Final = "http://localhost:9466"  # nothing of ragtrace listens there


def alertmanager(made: AlertPolicy) -> Routing:
    """The whole configuration, as Alertmanager reads it."""
    pace = made.settings.notifications
    nobody = f"{made.owner(PLATFORM)}-ticket"
    return {
        "global": {"resolve_timeout": str(pace.resolve_timeout)},
        "route": {
            "receiver": nobody,
            "group_by": ["service", "stage"],
            "group_wait": str(pace.group_wait),
            "group_interval": str(pace.group_interval),
            "repeat_interval": str(pace.repeat_ticket),
            "routes": [*_triage_route(made), *_segment_routes(made), *_stage_routes(made)],
        },
        "inhibit_rules": _inhibitions(made),
        "receivers": [*_receivers(made), *_triage_receiver(made)],
    }


def _triage_route(made: AlertPolicy) -> list[Routing]:
    return [{"receiver": "triage", "matchers": ['stage!=""'], "continue": True}] if made.settings.triage else []


def _triage_receiver(made: AlertPolicy) -> list[Routing]:
    url = made.settings.triage
    return [{"name": "triage", "webhook_configs": [{"url": url, "send_resolved": True}]}] if url else []


def _segment_routes(made: AlertPolicy) -> list[Routing]:
    return [
        route
        for stage in made.registry.stages
        for override, owner in made.overriding(stage.name)
        for route in _routes(made, owner, stage=stage.name, service=override.service, segment=override.segment)
    ]


def _stage_routes(made: AlertPolicy) -> list[Routing]:
    stages = [*(stage.name for stage in made.registry.stages), PLATFORM]
    return [route for stage in stages for route in _routes(made, made.owner(stage), stage=stage)]


def _routes(made: AlertPolicy, owner: str, **labels: str | None) -> list[Routing]:
    matchers = [f"{name}={quoted(value)}" for name, value in labels.items() if value is not None]
    pace = made.settings.notifications
    repeats = {"page": pace.repeat_page, "ticket": pace.repeat_ticket}
    return [
        {
            "receiver": f"{owner}-{severity}",
            "matchers": [*matchers, f'severity="{severity}"'],
            "repeat_interval": str(repeats[severity]),
        }
        for severity in _SEVERITIES
    ]


def _receivers(made: AlertPolicy) -> list[Routing]:
    return [
        {"name": f"{owner}-{severity}", **_destination(made, owner, severity)}
        for owner in made.owners
        for severity in _SEVERITIES
    ]


def _destination(made: AlertPolicy, owner: str, severity: str) -> dict[str, Any]:
    given = made.settings.receivers.get(owner, {}).get(severity)
    if given is not None:
        return given
    return {"webhook_configs": [{"url": f"{_PLACEHOLDER}/{owner}/{severity}", "send_resolved": True}]}


def _inhibitions(made: AlertPolicy) -> list[Routing]:
    """An earlier stage's page keeps the pages of the later stages still, in the same segment.

    Alertmanager takes two labels that are missing for equal ones: the source must have both.
    """
    rules = []
    for stage in made.registry.stages:
        later = [one.name for one in made.indicators if stage.name in one.upstream]
        if later:
            rules.append(
                {
                    "source_matchers": [f'stage="{stage.name}"', 'severity="page"', 'service!=""', 'segment!=""'],
                    "target_matchers": [f'stage=~"{"|".join(later)}"', 'severity="page"'],
                    "equal": ["service", "segment"],
                }
            )
    absent = ['alertname="RagtraceSliAbsent"']
    stale = ['alertname="RagtraceAnalyzerStale"', 'service!=""']
    rules.append({"source_matchers": stale, "target_matchers": absent, "equal": ["service"]})
    rules.append({"source_matchers": ['alertname="RagtraceExporterDown"'], "target_matchers": absent})
    return rules


_TESTS: Final = ("tests.yml", "long-tests.yml", "slow-tests.yml")

_SERIES: Final = re.compile(r"\bragtrace[_:][\w:]+")
_PARTS: Final = ("", "_bucket", "_sum", "_count")
_MISSING: Final = "{} was not found; install it (on Debian: apt-get install {})"


def _alert_groups(made: AlertPolicy) -> list[Group]:
    """The groups of alerting rules."""
    interval = str(made.settings.evaluation.interval)
    named = {
        "indicators": indicator_alerts,
        "suspected": suspicion_alerts,
        "drift": drift_alerts,
        "platform": platform_alerts,
    }
    return [
        {"name": f"ragtrace-{name}", "interval": interval, "rules": list(alerts(made))}
        for name, alerts in named.items()
    ]


def _tests(made: AlertPolicy, interval: str, scenarios: Iterable[AlertScenario]) -> dict[str, Any]:
    return {
        "rule_files": ["recording.yml", "alerts.yml"],
        "evaluation_interval": interval,
        "group_eval_order": [group["name"] for group in (*recording_groups(made), *_alert_groups(made))],
        "tests": [scenario_test(made, scenario) for scenario in scenarios],
    }


FILES: Final[dict[str, Callable[[AlertPolicy], Any]]] = {
    "recording.yml": lambda made: {"groups": recording_groups(made)},
    "alerts.yml": lambda made: {"groups": _alert_groups(made)},
    "alertmanager.yml": alertmanager,
    "tests.yml": lambda made: _tests(made, "1m", [*indicator_scenarios(made), *platform_scenarios(made)]),
    "long-tests.yml": lambda made: _tests(
        made, f"{STEP}m", [*suspicion_scenarios(made), *low_traffic_scenarios(made), *long_scenarios(made)]
    ),
    "slow-tests.yml": lambda made: _tests(made, "1h", slow_scenarios(made)),
}


def render(config: Path | None = None, *, time_scale: float = 1.0) -> dict[str, str]:
    """Every file by its name, under the shipped settings and those of the file `config`.

    Raises: ConfigurationError when the settings cannot be used.
    """
    made = policy(known_registry(), read_settings(config, time_scale=time_scale))
    return _rendered(made, "# Written by `ragtrace alerts render`; edit the settings and write it again.")


def write(folder: Path, files: dict[str, str]) -> list[Path]:
    """Write rendered files into a folder, which is made where it is missing; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def generated(registry: Registry, name: str, by: str) -> str:
    """One of the files that stand in `alerts/generated/`, by the shipped settings."""
    settings = installation.folder("alerts") / "objectives.yaml"
    head = f"# Generated by {by} from metrics/*.yaml and alerts/{settings.name}; edit those."
    return head + "\n" + _dumped(FILES[name](policy(registry, read_settings())))


def _rendered(made: AlertPolicy, head: str) -> dict[str, str]:
    return {name: f"{head}\n{_dumped(content(made))}" for name, content in FILES.items()}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and repeats what stands twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write anchors: they are hard to read."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _dumped(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


class Checked(NamedTuple):
    """What one check found: whether all is well, who looked, and what they said."""

    good: bool
    by: str
    said: str


def check(folder: Path) -> list[Checked]:
    """Check the rules and Alertmanager's configuration in a folder that `render` has filled."""
    rules = [str(folder / name) for name in ("recording.yml", "alerts.yml")]
    return [
        _asked("promtool", "check", "rules", "--lint-fatal", *rules) or _own_rules(folder),
        _asked("amtool", "check-config", str(folder / "alertmanager.yml")) or _own_routes(folder),
    ]


def run_tests(folder: Path) -> Checked:
    """Run the scenarios in a folder that `render` has filled.

    Raises: ConfigurationError where promtool is missing: nothing else can run them.
    """
    with ThreadPoolExecutor() as threads:
        tested = list(threads.map(lambda name: _asked("promtool", "test", "rules", str(folder / name)), _TESTS))
    done = [one for one in tested if one is not None]
    if len(done) < len(tested):
        raise ConfigurationError(_MISSING.format("promtool", "prometheus"))
    return Checked(all(one.good for one in done), done[0].by, "\n".join(one.said for one in done))


def _asked(program: str, *arguments: str) -> Checked | None:
    found = shutil.which(program)
    if found is None:
        return None
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    return Checked(done.returncode == 0, " ".join([program, *arguments[:2]]), (done.stdout + done.stderr).strip())


def _own_rules(folder: Path) -> Checked:
    rules = [rule for name in ("recording.yml", "alerts.yml") for rule in _rules(folder / name)]
    known = {one.name + part for one in known_registry().instruments.values() for part in _PARTS}
    known |= {rule["record"] for rule in rules if "record" in rule}
    said = [
        f"{rule.get('alert') or rule.get('record')}: {name} is in no registry and is recorded by no rule"
        for rule in rules
        for name in sorted(set(_SERIES.findall(rule["expr"])) - known)
    ]
    missing = _MISSING.format("promtool", "prometheus")
    return Checked(not said, "ragtrace", "\n".join([*said, f"names of series only: {missing}"]))


def _rules(path: Path) -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def _own_routes(folder: Path) -> Checked:
    routing = yaml.safe_load((folder / "alertmanager.yml").read_text(encoding="utf-8"))
    receivers = [receiver["name"] for receiver in routing["receivers"]]
    used = [routing["route"]["receiver"], *(route["receiver"] for route in routing["route"]["routes"])]
    said = [f"route to {name}, which is no receiver" for name in dict.fromkeys(used) if name not in receivers]
    missing = _MISSING.format("amtool", "prometheus-alertmanager")
    return Checked(not said, "ragtrace", "\n".join([*said, f"names of receivers only: {missing}"]))
