"""Selections are read from one line; a version that was in use twice is refused until a window says which time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError, InputError
from ragtrace.gate._population import Sides, load
from ragtrace.gate.selection import Selection, parse
from ragtrace.store import Finished, Store
from ragtrace.types import Analysis
from tests.gate.measured import recorded

NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
URL = "postgresql://me:secret@host/db?sslmode=require&application_name=ci"
START, MINUTE = 1_700_000_000_000_000_000, 60_000_000_000
SELECTED = "version:model=m1"


def _parsed(text: str) -> Selection:
    return parse("--baseline", text, NOW)


def test_every_part_is_read() -> None:
    """Parts stand in any order, with white space or without."""
    found = _parsed("sqlite:///a.db & version:reranker=v17,index=2 &window:2h ago..now& service:shop & version:model=m")
    assert (found.url, found.service, found.file, found.replay) == ("sqlite:///a.db", "shop", None, None)
    assert found.versions == (("reranker", "v17"), ("index", "2"), ("model", "m"))
    assert (found.since, found.until) == (NOW - 2 * HOUR, NOW)


def test_replays_and_files_have_questions_of_their_own() -> None:
    """So the other side is expected to have the same ones; live traffic is not."""
    assert _parsed("replay:nightly") == Selection("replay:nightly", replay="nightly")
    assert _parsed("a/b.jsonl").file == "a/b.jsonl"
    assert [_parsed(each).is_controlled for each in ("replay:a", "a.jsonl", "version:a=b", "sqlite:///a.db")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_an_ampersand_may_stand_in_a_url_or_in_the_name_of_a_file() -> None:
    """It parts only what begins like a part."""
    assert _parsed(URL).url == URL
    found = _parsed(f"{URL}&replay:x")
    assert (found.url, found.replay) == (URL, "x")
    assert _parsed("q&a.jsonl").file == "q&a.jsonl"
    assert _parsed("window:1h ago..&q.jsonl").file == "q.jsonl"


def test_a_password_is_never_shown() -> None:
    """The text of a selection goes into reports."""
    assert "secret" not in _parsed(f"{URL}&replay:x").text
    assert _parsed(f"{URL}&replay:x").text.endswith("&replay:x")


def test_a_window_may_end_now() -> None:
    """An end that is left out is the present."""
    assert _parsed("window:1h ago..").until == NOW


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (" & ", "--baseline ' & ' is not usable; give replay:NAME, version:COMPONENT=VERSION[,...], other:"),
        ("replay:", "--baseline 'replay:' is not usable; give a value behind replay:"),
        ("version:reranker", "'version:reranker' is not usable; give version:COMPONENT=VERSION, as in reranker=v17"),
        ("version:a=", "give version:COMPONENT=VERSION"),
        ("other:model", "'other:model' is not usable; give other:COMPONENT=VERSION, as in reranker=v17"),
        ("version:a=1,a=2", "give one version of a"),
        ("window:2h ago", "give window:SINCE..UNTIL, as in window:2h ago..now"),
        ("window:now..2h ago", "is empty: 2023-11-14T22:13:20.000Z is not before 2023-11-14T20:13:20.000Z"),
        ("window:soon..now", "--baseline: SINCE 'soon' is not usable; give a time with its zone"),
        ("replay:a&replay:b", "has two parts replay:; give one"),
        ("a.jsonl&sqlite:///a.db", "has two sources of requests; give one"),
        ("mysql://host/db", "is not supported"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, complaint: str) -> None:
    """In one line that names the option, what was given, and what may be."""
    with pytest.raises(ConfigurationError) as caught:
        _parsed(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def _stored(folder: Path, *models: str, minutes: int = 1) -> str:
    """A store with one analyzed request of each of these models, in their order."""
    url = f"sqlite:///{folder}/gate.db"
    with Store.open(url) as store:
        times = [START + at * minutes * MINUTE for at in range(len(models))]
        records = [
            recorded(f"r{at:03}", versions={"model": model}, started_at=times[at], ended_at=times[at] + MINUTE)
            for at, model in enumerate(models)
        ]
        store.write(records)
        jobs = store.claim("test", limit=len(records))
        assert len(jobs) == len(records)
        store.finish([Finished(job, Analysis(request_id=job.request_id, analyzer_version="1")) for job in jobs])
    return url


def _load(url: str, *selections: str) -> Sides:
    return load([parse("--side", each) for each in selections], store=url, service=None, metrics=("errors",))


def test_a_version_that_came_back_is_refused_until_a_window_says_which(tmp_path: Path) -> None:
    """The line has both windows, and each of them selects one time."""
    url = _stored(tmp_path, *["m1"] * 20, *["m2"] * 15, *["m1"] * 12)
    with pytest.raises(InputError, match="the baseline 'version:model=m1' was in use twice") as refused:
        _load(url, SELECTED)
    windows = [part for part in str(refused.value).split("'") if "window:" in part]
    assert [len(_load(url, window).populations[0]) for window in windows] == [20, 12]
    assert len(_load(url, "version:model=m2").populations[0]) == 15


def test_a_recorded_return_is_known_from_few_requests(tmp_path: Path) -> None:
    """Two before and two after prove nothing by themselves; that somebody recorded the rollback does."""
    models = ["m1", "m1", "m2", "m2", "m1", "m1"]
    url = _stored(tmp_path, *models, minutes=10)
    assert len(_load(url, SELECTED).populations[0]) == 4
    with Store.open(url) as store:
        store.record_release("shop", "model", "m1", START + 35 * MINUTE)
    with pytest.raises(InputError, match="was in use twice"):
        _load(url, SELECTED)


@pytest.mark.parametrize("share", [0.03, 0.3, 0.9])
def test_a_canary_is_no_second_rollout(tmp_path: Path, share: float) -> None:
    """Requests of it come now and then, with pauses as long as chance makes them."""
    chance = random.Random(1)
    models = ["m1" if chance.random() < share else "m2" for _ in range(900)]
    found = _load(_stored(tmp_path, *models), SELECTED).populations[0]
    assert len(found) == models.count("m1")


def test_a_version_that_was_replaced_step_by_step_is_no_second_rollout(tmp_path: Path) -> None:
    """A rollout in steps leaves a last few stragglers behind long pauses."""
    chance = random.Random(2)
    models = ["m1" if chance.random() < share else "m2" for share in (1.0, 0.5, 0.1, 0.02) for _ in range(300)]
    assert len(_load(_stored(tmp_path, *models), SELECTED).populations[0]) == models.count("m1")
