"""Spans that come after their request was stored, whose earlier spans refer to its texts by then."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragtrace import config
from ragtrace.receive._assembly import Assembler
from ragtrace.receive._spans import ReceivedSpan, SpanEvent
from ragtrace.store import Store, Subject
from ragtrace.store.tables import content, span_part, trace
from ragtrace.types import RequestRecord, replace
from tests.receive.spans import TRACE, model, retriever, span
from tests.receive.test_assembly_assembler import part

EVALUATION = SpanEvent(
    "gen_ai.evaluation.result", 7, {"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.label": "bad"}
)
TEXTS = tuple(
    " ".join(
        f"Clause {place}.{number}: the tariff of {1900 + place * 7 + number} was {number}.{place} percent."
        for number in range(12)
    )
    for place in range(6)
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/spans.db"
    else:
        url = request.getfixturevalue("postgres_server").new_database()
    with Store.open(url) as opened:
        yield opened


def spans() -> list[ReceivedSpan]:
    """A chain with a retriever and a model below it, whose prompt shows three of the texts."""
    root = span(1, attributes={"openinference.span.kind": "CHAIN", "input.value": "What was the tariff?"})
    prompt = "\n\n".join(["Answer from this.", *TEXTS[:3], "What was the tariff?"])
    return [root, retriever(2, 1, TEXTS), model(3, 1, prompt, "4.5 percent.")]


def referring(store: Store) -> list[bool]:
    """For each part whether it refers to texts."""
    with store._database.read() as connection:
        return sorted(connection.scalars(sa.select(span_part.c.texts.is_not(None))))


def record(store: Store) -> RequestRecord:
    """The request."""
    found = store.get_record(TRACE)
    assert found is not None
    return found


def test_a_late_span(store: Store, assembler: Assembler) -> None:
    """It makes a newer revision with all texts, of what was sent early as well."""
    store.add_spans([part(spans()[:2])], now=100)
    assembler.step(now=200)
    early = record(store)
    assert referring(store) == [True]
    store.add_spans([part(spans()[2:])], now=300)
    assembler.step(now=400)

    late = record(store)
    assert early.record_revision < late.record_revision
    assert tuple(each.text for each in late.candidates) == TEXTS
    assert late.packing is not None
    assert [each.text for each in late.packing.chunks] == list(TEXTS[:3])
    assert late.generation is not None
    assert late.generation.answer == "4.5 percent."
    assert referring(store) == [True, True]
    assert store.inspect(sample=None).problems == ()


def test_a_part_that_is_sent_again(store: Store, assembler: Assembler) -> None:
    """It is known, and nothing is due."""
    for now in (100, 300):
        store.add_spans([part(spans())], now=now)
        assembler.step(now=now + 100)

    assert referring(store) == [True]
    assert (store.traces_waiting()[0], len(store.jobs())) == (0, 1)


def test_a_policy_without_content(store: Store) -> None:
    """No text is stored to which spans could refer; a late one is united with them nevertheless."""
    assembler = Assembler(store, config.load(capture_content="off"))
    store.add_spans([part(spans()[:2])], now=100)
    assembler.step(now=200)
    store.add_spans([part(spans()[2:])], now=300)
    assembler.step(now=400)

    assert referring(store) == [False, False]
    assert store.counts()["content"] == 0
    assert len(record(store).stages) == 3


def without_texts(store: Store, assembler: Assembler) -> int:
    """The revision of a request whose texts were lost before its late span came, which cannot be united with it."""
    store.add_spans([part(spans()[:2])], now=100)
    assembler.step(now=200)
    early = record(store).record_revision
    with store._database.write() as connection:
        connection.execute(sa.delete(content))
    store.add_spans([part(spans()[2:])], now=300)
    for now in range(400, 2_000, 100):
        assembler.step(now=now)
    return early


def test_a_text_that_is_gone(store: Store, assembler: Assembler, caplog: pytest.LogCaptureFixture) -> None:
    """The trace is tried some times and then left, with its late span and the remedy; its request stays as it was."""
    early = without_texts(store, assembler)

    assert record(store).record_revision == early
    assert store.traces_waiting()[0] == 0
    assert store.forget_spans(0, now=9_999) == 0
    assert store.counts()["span_part"] == 2
    with store._database.read() as connection:
        (error,) = connection.scalars(sa.select(trace.c.error)).all()
    assert "6 of the 6 texts of its spans are missing; restore the database from a backup" in error
    assert len([each for each in caplog.records if "cannot be assembled" in each.message]) == 5


def test_spans_that_are_sent_again(store: Store, assembler: Assembler) -> None:
    """Where their texts are gone they replace what is stored, and their request is as if nothing had been lost."""
    early = without_texts(store, assembler)
    assert len(store.inspect(sample=None).problems) == 2
    for each in (spans()[2:], spans()[:2]):
        assert store.add_spans([part(each)], now=2_000) == 0
    assembler.step(now=2_100)

    late = record(store)
    assert early < late.record_revision
    assert tuple(each.text for each in late.candidates) == TEXTS
    assert store.inspect(sample=None).problems == ()
    assert store.traces_waiting()[0] == 0
    assert store.forget_spans(0, now=9_999) == 1


def test_late_spans_alone(store: Store, assembler: Assembler, caplog: pytest.LogCaptureFixture) -> None:
    """They are no newer revision of a request whose own spans were forgotten, however many they are; what they say of
    it is kept."""
    store.add_spans([part(spans())], now=100)
    assembler.step(now=200)
    whole = record(store)
    assert store.forget_spans(3_600, now=10_000) == 1
    later = [model(10 + number, 1, f"judge {number}", "fine") for number in range(6)]
    store.add_spans([part([*later, span(50, 1, events=(EVALUATION,))])], now=10_100)
    assembler.step(now=10_200)

    found = record(store)
    assert replace(found, feedback=()) == whole
    assert [each.label for each in found.feedback] == ["bad"]
    assert "its request stays as it is" in caplog.text
    assert store.traces_waiting()[0] == 0


def second(*more: ReceivedSpan) -> list[ReceivedSpan]:
    """A request that another one in the same trace follows: it searches and answers anew."""
    return [retriever(22, 21, TEXTS[3:]), model(23, 21, f"From this: {TEXTS[3]}", "5.1 percent."), *more]


@pytest.mark.parametrize("tenant", ["", "acme"])
def test_a_second_request_of_a_trace(store: Store, assembler: Assembler, tenant: str) -> None:
    """It began when the first one had ended and its spans had been forgotten: both are there, each analyzed, and what
    comes late joins the one that it is of."""
    prefix = f"{tenant}:" if tenant else ""
    store.add_spans([part(spans(), tenant)], now=100)
    assembler.step(now=200)
    whole = store.get_record(prefix + TRACE)
    assert store.forget_spans(3_600, now=10_000) == 1
    store.add_spans([part(second()[:1], tenant)], now=10_100)
    assembler.step(now=10_200)
    assert len(store.find_requests()) == 1
    for number, more in enumerate(([], [span(21, attributes={"openinference.span.kind": "CHAIN"})]), 1):
        store.add_spans([part(second()[1:] + more, tenant)], now=10_200 + 100 * number)
        assembler.step(now=10_250 + 100 * number)
        assert store.get_record(prefix + TRACE) == whole
        first, later = sorted(store.find_requests(), key=lambda row: row.request_id)
        assert (first.request_id, later.request_id) == (
            prefix + TRACE,
            f"{prefix}{TRACE}~19700101T000000.000022000",
        )
        found = store.get_record(later.request_id)
        assert found is not None
        assert found.generation is not None
        assert (found.generation.answer, found.record_revision) == ("5.1 percent.", 1 + number)
        assert [each.text for each in found.candidates] == list(TEXTS[3:])
    assert len(store.jobs()) == 3
    assert store.traces_waiting()[0] == 0
    assert store.inspect(sample=None).problems == ()

    assert store.erase(Subject(requests=(later.request_id,)), rewrite=False).requests == 1
    store.forget_spans(0, now=99_999)
    store.add_spans([part([*second(), span(21, attributes={"openinference.span.kind": "CHAIN"})], tenant)], now=99_999)
    assembler.step(now=100_100)
    assert [row.request_id for row in store.find_requests()] == [prefix + TRACE]


def test_all_spans_again(store: Store, assembler: Assembler) -> None:
    """Sent anew with one more after they were forgotten, they are a newer revision as ever."""
    store.add_spans([part(spans())], now=100)
    assembler.step(now=200)
    assert store.forget_spans(3_600, now=10_000) == 1
    store.add_spans([part([*spans(), model(9, 1, "Is it so?", "yes")])], now=10_100)
    assembler.step(now=10_200)

    assert len(record(store).stages) == len(spans()) + 1


@pytest.mark.parametrize("at", [50, 10_100], ids=["before the request", "long after it"])
def test_a_judgment_in_a_span_alone(store: Store, assembler: Assembler, at: int) -> None:
    """It joins the request of its trace, whenever it comes."""
    for now, given in sorted([(100, spans()), (at, [span(50, 1, events=(EVALUATION,))])], key=itemgetter(0)):
        store.add_spans([part(given)], now=now)
        assembler.step(now=now + 90)
        store.forget_spans(30, now=now + 99)

    assert [(each.source, each.label) for each in record(store).feedback] == [("relevance", "bad")]


def test_a_judgment_is_not_told_twice(store: Store, assembler: Assembler) -> None:
    """One that came before its request's spans is united with them, and stands there once."""
    store.add_spans([part([span(50, 1, events=(EVALUATION,))])], now=50)
    assembler.step(now=140)
    store.add_spans([part(spans())], now=150)
    assembler.step(now=240)

    assert [each.label for each in record(store).feedback] == ["bad"]
    assert store.counts()["feedback"] == 1
