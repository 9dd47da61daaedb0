"""What on-call said of alerts: one row for each alert, and a counter that never goes down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragtrace.registry.instruments import PAGE_JUDGMENTS
from ragtrace.store import Judgment, PageJudgment, PageJudgmentCount, Store

PAGE = PageJudgment("a-1", "shop", "limit", "ranking", "page", "right", 10)


def counted(store: Store) -> dict[str, float]:
    """The counter by answer, summed over its other labels."""
    values: dict[str, float] = {}
    for total in store.totals():
        if total.name == PAGE_JUDGMENTS.name:
            answer = dict(total.labels)["judgment"]
            values[answer] = values.get(answer, 0.0) + total.value
    return values


def test_an_answer_is_kept_and_counted(store: Store) -> None:
    """Under its labels; the answers that were not given stand at zero."""
    assert store.judge_page(PAGE) is None
    assert store.page_judgment("a-1") == PAGE
    assert counted(store) == {"right": 1.0, "wrong_stage": 0.0, "false": 0.0}
    labels = [dict(total.labels) for total in store.totals() if total.name == PAGE_JUDGMENTS.name and total.value]
    assert labels == [
        {"service": "shop", "segment": "limit", "stage": "ranking", "severity": "page", "judgment": "right"}
    ]


def test_the_same_answer_again_counts_once(store: Store) -> None:
    """A second click, and a comment that came later."""
    store.judge_page(PAGE)
    assert store.judge_page(replace(PAGE, judged_at=20, comment="sure")) == PAGE
    assert counted(store)["right"] == 1.0
    found = store.page_judgment("a-1")
    assert found is not None
    assert (found.comment, found.judged_at) == ("sure", 20)


def test_another_answer_replaces_the_one_before(store: Store) -> None:
    """Rows hold the last word; the counter counts the new answer as well, since counters never go down."""
    store.judge_page(PAGE)
    changed = replace(PAGE, judgment="false", judged_at=20)
    assert store.judge_page(changed) == PAGE
    assert store.page_judgments() == [changed]
    assert store.count_page_judgments() == [PageJudgmentCount("shop", "page", "false", 1)]
    assert counted(store) == {"right": 1.0, "wrong_stage": 0.0, "false": 1.0}


def test_answers_are_found_and_counted_by_service(store: Store) -> None:
    """The newest first; pages and tickets apart."""
    given: list[tuple[str, dict[str, Any], Judgment]] = [
        ("a-1", {}, "right"),
        ("a-2", {"segment": "deadline"}, "right"),
        ("a-3", {"severity": "ticket"}, "wrong_stage"),
        ("a-4", {"service": "other"}, "false"),
    ]
    for number, (alert_id, fields, answer) in enumerate(given):
        store.judge_page(replace(PAGE, alert_id=alert_id, judgment=answer, judged_at=number, **fields))
    assert [one.alert_id for one in store.page_judgments("shop")] == ["a-3", "a-2", "a-1"]
    assert [one.alert_id for one in store.page_judgments(limit=1)] == ["a-4"]
    assert store.count_page_judgments("shop") == [
        PageJudgmentCount("shop", "page", "right", 2),
        PageJudgmentCount("shop", "ticket", "wrong_stage", 1),
    ]
    assert store.page_judgment("a-9") is None
