"""Corrective retrieval as an example: what it keeps, when it searches, and what the record says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import ragtrace
from ragtrace.analyze import analyze_record
from ragtrace.demo import corrective
from ragtrace.demo._mediawiki import WikiPage
from ragtrace.demo.corrective import Corrective, WordIndex
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import load_pipeline, read_questions
from ragtrace.grading import GradeThresholds
from ragtrace.http_client import NoAnswer
from ragtrace.store import Store
from ragtrace.types import PackRun, RequestRecord, RerankRun, RetrieveRun

LONG = "Alpha one is here. Beta two is here. Gamma three is here. Delta four is here. Omega five is here."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The address of a store that requests are recorded to."""
    url = f"sqlite:///{tmp_path}/corrective.db"
    ragtrace.configure(service="test", store=url, capture_content="full", sample_rate=1.0)
    yield url
    ragtrace.shutdown()


def graded(grades: dict[str, float], pages: Sequence[WikiPage] | None) -> Corrective:
    """A pipeline over LONG whose grades are those of the first key that a text holds; None: the search fails."""

    def grade(question: str, texts: Sequence[str]) -> list[float]:
        return [next(value for key, value in grades.items() if key in text) for text in texts]

    def search(question: str) -> Sequence[WikiPage]:
        if pages is None:
            raise NoAnswer("silent")
        return pages

    return Corrective(WordIndex({"long": LONG}), search, grade=grade, thresholds=GradeThresholds(0.5, -0.5))


def recorded(url: str, pipeline: Corrective) -> tuple[str, RequestRecord]:
    """The action of one request, and its record."""
    answer = pipeline.ask("Where is alpha?")
    ragtrace.flush(timeout=30)
    with Store.open(url) as store:
        return str(answer.action), store.get_records([answer.request_id])[answer.request_id]


def packed(record: RequestRecord) -> dict[str, str | None]:
    """What stood in the prompt, by chunk."""
    run = next(run for run in record.stages if isinstance(run, PackRun))
    return {chunk.chunk_id: chunk.text for chunk in run.packing.chunks}


PAGE = WikiPage("Alpha", "http://127.0.0.1/wiki/Alpha", "Web words.")


def test_correct_keeps_the_best_strips_and_searches_nothing(store: str) -> None:
    """The strip below the floor is left out of the prompt, and there is one retrieve stage."""
    action, record = recorded(store, graded({"Alpha": 0.9, "Delta": -0.9}, [PAGE]))
    assert record.graded is not None
    assert action == "CORRECT" == record.graded.action
    assert len(record.graded.grades) == len(record.candidates)
    assert packed(record) == {"long": "Alpha one is here. Beta two is here. Gamma three is here."}
    assert [run.name for run in record.stages if isinstance(run, RetrieveRun)] == ["Vanilla.retrieve"]


def test_incorrect_searches_instead(store: str) -> None:
    """What was retrieved is dropped; the page is a candidate of its own, from outside."""
    action, record = recorded(store, graded({"Web": 0.9, "": -0.9}, [PAGE]))
    assert action == "INCORRECT"
    assert packed(record) == {"web:Alpha": "Web words."}
    found = {each.chunk_id: (each.modality, each.source) for each in record.candidates}
    assert found == {"long": ("text", None), "web:Alpha": ("web", PAGE.url)}
    moves = {move.chunk_id: move.score for run in record.stages if isinstance(run, RerankRun) for move in run.moves}
    assert moves == {"long": -0.9, "web:Alpha": 0.9}
    assert record.packing is not None
    assert [(each.chunk_id, each.reason) for each in record.packing.dropped] == [("long", "grade")]


def test_ambiguous_does_both(store: str) -> None:
    """Strips of the page and of what was retrieved stand in the prompt."""
    action, record = recorded(store, graded({"Web": 0.9, "": 0.1}, [PAGE]))
    assert action == "AMBIGUOUS"
    assert packed(record) == {"web:Alpha": "Web words.", "long": LONG}


def test_a_search_that_fails_costs_no_answer(store: str) -> None:
    """What was retrieved is kept, and the record says that the search failed."""
    action, record = recorded(store, graded({"": -0.9}, None))
    assert action == "INCORRECT"
    assert packed(record) == {"long": LONG}
    failed = [run.error.type for run in record.stages if isinstance(run, RetrieveRun) and run.error is not None]
    assert failed == ["ragtrace.http_client.NoAnswer"]


def test_pages_found_before_the_search_fails_are_kept(store: str) -> None:
    """The encyclopedia gives a page and falls silent: the page stands in the prompt, and no stage failed."""

    def pages(question: str) -> Iterator[WikiPage]:
        yield PAGE
        raise NoAnswer("silent")

    pipeline = graded({"Web": 0.1, "": -0.9}, [])
    pipeline._pages = pages
    action, record = recorded(store, pipeline)
    assert action == "INCORRECT"
    assert packed(record) == {"web:Alpha": "Web words."}
    assert [run.error for run in record.stages if isinstance(run, RetrieveRun)] == [None, None]


def test_the_search_ends_at_a_page_that_is_correct() -> None:
    """Further pages are not asked for; at most five are."""
    for grade, read in ((0.9, 1), (0.1, 5)):
        asked: list[str] = []

        def pages(question: str, asked: list[str] = asked) -> Iterator[WikiPage]:
            for number in range(9):
                asked.append(str(number))
                yield WikiPage(str(number), "", "Web words.")

        pipeline = graded({"Web": grade, "": -1.0}, [])
        pipeline._pages = pages
        pipeline.ask("Where is alpha?")
        assert len(asked) == read


def test_an_index_needs_a_passage() -> None:
    """One without words is enough."""
    with pytest.raises(ConfigurationError, match="passages"):
        WordIndex({})
    assert [each.chunk_id for each in WordIndex({"a": ""}).find("Where is alpha?")] == ["a"]


def test_the_default_grade_is_the_share_of_rare_words() -> None:
    """From −1 to 1; a word that nothing holds is the rarest, and a question without words has no evidence."""
    index = WordIndex({"a": "red kettle", "b": "blue kettle", "c": "green kettle"})
    none, kettle, red, both = index.grade("the red kettle", ["sand", "kettle", "red", "red kettle"])
    assert none == -1 < kettle < 0 < red < both == 1
    assert index.grade("the red zebra", ["red"])[0] < 0
    assert index.grade("of the", ["red"]) == [-1]


def test_the_example_gains_what_the_encyclopedia_holds(store: str, tmp_path: Path) -> None:
    """Of 18 questions 12 are answered without correction and 16 with it; where search mends nothing, retrieval is
    blamed."""
    file = tmp_path / "questions.jsonl"
    assert corrective.write_questions(file) == 18
    questions = read_questions(file)
    plain, corrected = ([each.ask(question.text) for question in questions] for each in corrective._pipelines())
    ragtrace.flush(timeout=30)
    right = [
        [str(question.answer) in each.answer for question, each in zip(questions, answers, strict=True)]
        for answers in (plain, corrected)
    ]
    assert [sum(each) for each in right] == [12, 16]
    assert not [each for each, before, after in zip(questions, *right, strict=True) if before and not after]
    with Store.open(store) as opened:
        records = opened.get_records([each.request_id for each in corrected])
    blamed = {
        question.text: analyze_record(records[each.request_id], question.as_gold("test"), ()).diagnosis.stage
        for question, each in zip(questions, corrected, strict=True)
    }
    assert {blamed[each.text] for each in questions if each.segment == "nowhere"} == {"retrieval"}
    assert "retrieval" not in {blamed[each.text] for each in questions if each.segment == "web"}


def test_one_command_records_diagnoses_and_gates_both(tmp_path: Path) -> None:
    """By place of the evidence: what search mends, what it cannot, whom the verdicts blame; twice into one store."""
    url = f"sqlite:///{tmp_path}/compared.db"
    for _ in range(2):
        found = corrective.compare(url)
        cells = {each.where: each for each in found.cells}
        assert {where: (dict(each.right), each.questions) for where, each in cells.items()} == {
            "index": ({"vanilla": 12, "corrective": 12}, 12),
            "web": ({"vanilla": 0, "corrective": 4}, 4),
            "nowhere": ({"vanilla": 0, "corrective": 0}, 2),
        }
        assert dict(cells["nowhere"].blamed) == {"retrieval": 2}
        assert "retrieval" not in cells["web"].blamed
        assert cells["web"].actions.get("CORRECT", 0) == 0
        assert found.gate.exit_code == 3
    assert [each["where"] for each in found.to_json()["cells"]] == ["index", "web", "nowhere"]
    with Store.open(url) as store:
        assert {row[0] for row in store.replayed_services()} == {"vanilla", "corrective"}


def test_both_are_pipelines_of_a_replay() -> None:
    """Under their own names."""
    for name in ("vanilla", "corrective"):
        assert load_pipeline(f"ragtrace.demo.corrective:{name}") is getattr(corrective, name)
