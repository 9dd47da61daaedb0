"""Asks promtool and amtool about rendered files; where they are missing, checks what can be checked without them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from ragtrace.alerts.policy import known_registry
from ragtrace.errors import ConfigurationError

__all__ = ["TESTS", "Checked", "check", "run_tests"]

TESTS: Final = ("tests.yml", "slow-tests.yml")

_SERIES: Final = re.compile(r"\bragtrace[_:][\w:]+")
_PARTS: Final = ("", "_bucket", "_sum", "_count")
_MISSING: Final = "{} was not found; install it (on Debian: apt-get install {})"


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
    tested = _asked("promtool", "test", "rules", *(str(folder / name) for name in TESTS))
    if tested is None:
        raise ConfigurationError(_MISSING.format("promtool", "prometheus"))
    return tested


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
