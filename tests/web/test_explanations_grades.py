"""Grades on the page of a request, and why a chunk got its grade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace.analyze.worker import WorkerSettings, run
from ragtrace.grading import GradeThresholds
from ragtrace.store import Store
from ragtrace.types import Candidate, Grade, HostGrades, Query, RequestRecord, RetrieveRun, replace
from ragtrace.web._explanations import GradePages
from tests.analyze.test_retrieval_grading import GOOD, WordJudge, record
from tests.web.test_pages import FILE, Elements, client

HOSTILE = "a'\"><img src=x>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Graded: one whose host did otherwise, and one of a tenant with hostile texts; and one that nobody graded."""
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('graded')}/pages.db") as opened:
        hostile = RequestRecord(
            request_id="r0002",
            service="acme/s",
            tenant_id="acme",
            query=Query(original="What is the <script>tariff</script>?"),
            stages=(RetrieveRun(candidates=(Candidate(chunk_id=HOSTILE, rank=1, text=f"The tariff {HOSTILE}"),)),),
            started_at=1_700_000_000_000_000_000,
        )
        said = HostGrades(grades=(Grade(chunk_id="c1", grade=1.0),), source="<b>grade_documents")
        opened.write([replace(record(1, "Bees.", GOOD, None), graded=HostGrades(action="INCORRECT")), hostile])
        opened.write([replace(record(4, GOOD), graded=said)])
        run(opened, WorkerSettings(relevance=WordJudge(), thresholds=GradeThresholds(0.5, -0.5)))
        opened.write([record(3, GOOD)])
        yield opened


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """The file of tokens."""
    file = tmp_path / "tokens"
    file.write_text(FILE)
    file.chmod(0o600)
    return file


def test_the_page_of_a_request_shows_its_grades(store: Store) -> None:
    """The best first, by what thresholds, and what the application did instead; without a judge no words."""
    page = client(store).get("/requests/r0001").text
    assert "What was retrieved is graded CORRECT" in page
    assert "CORRECT from +0.50 on, INCORRECT below -0.50" in page
    assert '<b class="bad">INCORRECT</b>' in page
    assert page.index("+0.80") < page.index("-1.00")
    assert "/grades/" not in page
    assert "What was retrieved is graded" not in client(store).get("/requests/r0003").text


def test_the_step_that_graded_is_named(store: Store) -> None:
    """Where the application's grades came with another tool's spans."""
    page = client(store).get("/requests/r0004").text
    assert "By <bdi>host (&lt;b&gt;grade_documents)</bdi>: CORRECT" in page


def test_the_words_behind_a_grade(store: Store) -> None:
    """Where a judge runs beside the pages: a link for each candidate with a text, to its words."""
    browser = client(store, relevance=WordJudge())
    page = browser.get("/requests/r0001").text
    assert page.count("which words") == 2
    answer = browser.get("/grades/r0001?chunk=c2")
    assert answer.status_code == 200
    assert "Grade +0.80 by words" in answer.text
    assert ">tariff</i>" in answer.text


def test_what_cannot_be_explained_says_why(store: Store) -> None:
    """No judge, no text, no such chunk or request, and another explanation on its way."""
    assert "--relevance builtin" in client(store).get("/grades/r0001?chunk=c2").text
    browser = client(store, relevance=WordJudge())
    for address in ("/grades/r0001?chunk=c3", "/grades/r0001?chunk=none", "/grades/r0001"):
        answer = browser.get(address)
        assert answer.status_code == 400
        assert "not kept" in answer.text
    assert browser.get("/grades/none?chunk=c2").status_code == 404
    pages = GradePages(WordJudge())
    known = store.get_record("r0001")
    assert known is not None
    pages._lock.acquire()
    with pytest.raises(Exception, match="another grade is being explained"):
        pages.explained(known, "c2")


def test_who_may_read_no_texts_sees_grades_alone(store: Store, tokens: Path) -> None:
    """And no words; another tenant's request is as one that does not exist."""
    numbers = client(store, tokens, "numbers", relevance=WordJudge())
    page = numbers.get("/requests/r0002").text
    assert "What was retrieved is graded" in page
    assert "which words" not in page
    assert numbers.get(f"/grades/r0002?chunk={HOSTILE}").status_code == 403
    assert client(store, tokens, "rival", relevance=WordJudge()).get("/grades/r0002?chunk=a").status_code == 404


def test_no_recorded_text_becomes_an_element(store: Store) -> None:
    """Of the question, the chunk and its id; all addresses are our own."""
    browser = client(store, relevance=WordJudge())
    for address in ("/requests/r0002", "/grades/r0002"):
        answer = browser.get(address, params={"chunk": HOSTILE})
        assert answer.status_code == 200
        found = Elements(answer.text)
        assert "img" not in found.names
        assert found.running == []
