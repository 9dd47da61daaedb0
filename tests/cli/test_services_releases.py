"""`ragtrace release`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def _releases(cli: Cli, url: str, *options: str) -> list[dict[str, Any]]:
    done = cli("release", "list", "--store", url, "--json", *options)
    found: list[dict[str, Any]] = json.loads(done.stdout)["releases"]
    return found


def test_a_recorded_time_goes_before_the_first_request(cli: Cli, store_url: str) -> None:
    """The list shows both, newest release first, each release once."""
    done = cli(
        *("release", "record", "--service", "support", "--component", "model", "--version", "m-1"),
        *("--at", "2023-11-14T20:00Z", "--store", store_url),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "support model=m-1 in use since 2023-11-14 20:00:00Z\n"
    record = ("release", "record", "--service", "support", "--component", "reranker", "--version", "v17")
    assert cli(*record, "--at", "2h ago", "--store", store_url).returncode == 0
    reranker, model = _releases(cli, store_url)
    assert (reranker["component"], reranker["version"], reranker["first_seen_at"]) == ("reranker", "v17", None)
    assert reranker["at"] == reranker["recorded_at"]
    assert model == {
        "service": "support",
        "component": "model",
        "version": "m-1",
        "at": "2023-11-14T20:00:00.000Z",
        "recorded_at": "2023-11-14T20:00:00.000Z",
        "first_seen_at": "2023-11-14T22:13:20.000Z",
    }
    lines = cli("release", "list", "--store", store_url).stdout.splitlines()
    assert lines[0].split("  ")[0] == "service"
    assert [line.split()[:3] for line in lines[1:]] == [["support", "reranker", "v17"], ["support", "model", "m-1"]]
    assert lines[1].rstrip().endswith("none yet")
    assert lines[2].split()[3:] == ["2023-11-14", "20:00:00Z", "2023-11-14", "20:00:00Z", "2023-11-14", "22:13:20Z"]


def test_the_list_can_be_narrowed(cli: Cli, store_url: str) -> None:
    """By service and by component."""
    assert [each["version"] for each in _releases(cli, store_url, "--service", "support")] == ["m-1"]
    assert _releases(cli, store_url, "--service", "other") == []
    assert _releases(cli, store_url, "--component", "index") == []
    assert "no such release is known" in cli("release", "list", "--store", store_url, "--service", "other").stdout


@pytest.mark.parametrize(
    ("component", "meant"), [("rerankr", "; did you mean reranker?"), ("guardrail", ""), ("model", None)]
)
def test_a_component_of_no_stage_is_taken_and_noted(
    cli: Cli, store_url: str, component: str, meant: str | None
) -> None:
    """An application may have further parts; a slip of the pen is said."""
    record = ("release", "record", "--service", "support", "--component", component, "--version", "x")
    done = cli(*record, "--store", store_url)
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    if meant is None:
        assert said == ""
    else:
        assert said.startswith(f"note: {component} belongs to no stage, so that no diagnosis suspects it (chunker, ")
        assert said.endswith(f"do){meant}")
    assert component in [each["component"] for each in _releases(cli, store_url)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--version", " "), "--version ' ' is not usable; give a name of 1 to 200 characters"),
        (("--version", "v", "--at", "tomorrow"), "--at 'tomorrow' is not usable; give a time with its zone"),
        (
            ("--version", "v", "--at", "0001-01-01T00:00Z"),
            "--at '0001-01-01T00:00Z' is not usable; give a time from 1678",
        ),
        (("--version", "v", "--at", "2999-01-01T00:00Z"), "it lies in the future"),
    ],
)
def test_what_cannot_be_used_is_said(cli: Cli, store_url: str, options: tuple[str, ...], complaint: str) -> None:
    """In one line, with exit code 2, and nothing is stored."""
    done = cli("release", "record", "--service", "s", "--component", "model", *options, "--store", store_url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert complaint in done.stderr
    assert _releases(cli, store_url, "--service", "s") == []


def test_a_mistake_is_taken_back(cli: Cli, store_url: str) -> None:
    """What requests carried stays, and what was never recorded is an error."""
    names = ("--service", "support", "--component", "model", "--version")
    assert cli("release", "record", *names, "typo", "--store", store_url).returncode == 0
    done = cli("release", "forget", *names, "typo", "--store", store_url)
    assert (done.returncode, done.stdout) == (0, "support model=typo is forgotten\n")
    assert [each["version"] for each in _releases(cli, store_url)] == ["m-1"]
    done = cli("release", "forget", *names, "m-1", "--store", store_url)
    assert done.returncode == 2
    assert "release 'support model=m-1' is not usable; give one that was recorded" in done.stderr


def test_a_filter_that_fits_nothing(cli: Cli, store_url: str) -> None:
    """Releases that are known are not called unknown."""
    done = cli("release", "list", "--service", "suport", "--store", store_url)
    assert done.stdout.startswith("no such release is known; ragtrace release list shows all")
