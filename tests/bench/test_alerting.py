"""Simulated traffic made of the verdict's benchmark: what is drawn, what fires, and whose it is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bench.alerting import (
    AFTER,
    WEEK,
    Alert,
    counted,
    fired,
    firing,
    healthy_weeks,
    incidents,
    main,
    read_pools,
    read_request,
)
from ragtrace.alerts._policy import known_registry, policy
from ragtrace.alerts.settings import read_settings
from ragtrace.types import Stage

MADE = policy(known_registry(), read_settings(None))


def found(*doubted: str, **states: str) -> dict[Stage, dict[str, Any]]:
    """The findings of three stages, sound but for those that are given."""
    stages: tuple[Stage, ...] = ("retrieval", "ranking", "generation")
    return {one: {"state": states.get(one, "sound"), "reason": None, "doubted": one in doubted} for one in stages}


SOUND = found()
LOST = found("retrieval", "generation", retrieval="suspected", generation="suspected")
MADE_UP = found("generation", generation="broken")


def lines(setup: str = "k6", questions: int = 20) -> list[str]:
    """What the benchmark printed of one application: each request, and both of its faults."""
    rows = []
    for number in range(questions):
        key = {"domain": "towns", "setup": setup, "question_id": f"q{number}"}
        rows += [
            key | {"injector": "sound", "fault": None, "truth": None, "findings": SOUND},
            key | {"injector": "swaps", "fault": "lost+made_up", "truth": "retrieval", "findings": LOST},
            key | {"injector": "swaps", "fault": "lost+refusal", "truth": "retrieval", "findings": LOST},
            key | {"injector": "swaps", "fault": "made_up", "truth": "generation", "findings": MADE_UP},
            key | {"injector": "natural", "fault": "retrieval+x", "truth": "retrieval", "findings": LOST},
        ]
    return [json.dumps(row) for row in rows]


def test_a_request_counts_where_no_earlier_stage_is_doubtful() -> None:
    """Its doubts count everywhere; a stage that does not apply has none."""
    assert read_request(SOUND) == [1, 1, 1, 0, 0, 0, 0, -1, 0]
    assert read_request(MADE_UP) == [1, 1, 2, 0, 0, 0, 1, -1, 0]
    assert read_request(LOST) == [3, 0, 0, 0, 1, 0, 1, -1, 0]


def test_counters_are_cumulated_by_minute() -> None:
    """From nothing before the first."""
    requests = np.array([read_request(SOUND), read_request(MADE_UP), read_request(LOST)], dtype=np.int8)
    traffic = counted(requests, np.array([0, 2, 2]), 3)
    assert traffic.judged[:3].tolist() == [[0, 1, 1, 2], [0, 1, 1, 2], [0, 1, 1, 2]]
    assert traffic.broken[2].tolist() == [0, 0, 0, 1]
    assert traffic.every[3].tolist() == [0, 0, 0, 0]
    assert traffic.doubted[2].tolist() == [0, 0, 0, 2]


def test_pools_pair_a_fault_with_the_request_that_it_was_injected_into() -> None:
    """Natural failures are in none; what models answer after one fault of the evidence is one fault."""
    pools = read_pools([*lines(), *lines("k4-mixed"), *lines("k10", questions=0)], least=20)
    assert set(pools) == {("towns", False), ("towns", True)}
    pool = pools["towns", False]
    assert len(pool.sound) == 20
    assert {sort: len(pairs) for sort, pairs in pool.broken.items()} == {
        ("retrieval", "swaps: lost"): 40,
        ("generation", "swaps: made_up"): 20,
    }
    assert pool.broken["retrieval", "swaps: lost"][0].tolist() == [read_request(SOUND), read_request(LOST)]
    assert read_pools(lines(), least=21) == {}


def test_an_alert_fires_after_it_held() -> None:
    """For every look of its hold, and begins once."""
    condition = np.array([[True, True, False, True, True, True, True]])
    assert firing(condition, 4)[0].tolist() == [False, False, False, False, False, True, True]
    flags = {("ranking", "page"): firing(condition, 4)[0], ("retrieval", "ticket"): firing(condition, 2)[0]}
    assert list(fired(flags, since=6)) == [Alert("retrieval", False, 4), Alert("ranking", True, 6)]


def test_a_healthy_week_is_silent_and_an_incident_finds_its_owner() -> None:
    """Of a service whose sound requests are judged sound, and whose faults are all seen."""
    pools = read_pools(lines(), least=20)
    week = next(healthy_weeks(MADE, pools["towns", False], 5.0, 1, seed=0))
    assert week.alerts == []
    assert week.bad[:3].tolist() == [0, 0, 0]
    assert np.isnan(week.bad[3])
    told = list(incidents(MADE, pools, seed=0))
    assert len(told) == 2 * 2 * 3
    assert all(one.is_right for one in told)
    assert all(one.first is not None and 0 < one.first.after < AFTER < WEEK for one in told)


def test_answers_far_from_their_questions_are_a_ticket_to_generation() -> None:
    """Of a fault that no doubt sees; one of retrieval that doubt sees as well stays retrieval's."""

    def first(*doubted: str) -> set[str]:
        """Whose the first alerts are of a fault that makes answers distant and these stages doubtful."""
        broken = found(*doubted)
        broken["generation"]["distant"] = True
        rows = [json.loads(row) | {"findings": broken if '"made_up"' in row else SOUND} for row in lines()]
        pools = read_pools([json.dumps(row) for row in rows if row["injector"] != "natural"], least=20)
        pools["towns", False].broken.pop(("retrieval", "swaps: lost"))
        return {one.first.stage for one in incidents(MADE, pools, seed=0) if one.first}

    assert first() == {"generation"}
    assert first("retrieval") == {"retrieval"}


def test_the_tables_are_printed(tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """And a file without enough requests is refused."""
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(lines()), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["alerting.py", str(path), "--weeks", "1", "--detail"])
    main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["retrieval", "no", "1", "0.2", "1", "100", "0", "0"] in [row[:8] for row in rows]
    assert ["swaps:", "made_up", "6", "100"] in [row[:4] for row in rows]
    monkeypatch.setattr("sys.argv", ["alerting.py", str(path), "--least", "50"])
    with pytest.raises(SystemExit, match="no domain has 50 sound requests; give more results or --least"):
        main()
