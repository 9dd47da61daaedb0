"""The experiment of fair exposure, on pipelines whose course is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragtrace.analyze.exposure_experiment import (
    MEASURES,
    ExperimentQuestion,
    ExperimentSettings,
    _harmless,
    run_experiment,
)
from ragtrace.errors import ConfigurationError
from ragtrace.export.exposure_experiment import experiment_figures, experiment_page
from ragtrace.exposure import interval_differences

PLACES = ("Oslo", "Bergen", "Tromso", "Narvik", "Bodo", "Molde")
ASKED = [
    ExperimentQuestion(
        f"q{number}", f"Which harbor opened in {1900 + number}?", f"The harbor of {town} opened.", (town,)
    )
    for number, town in enumerate(PLACES[:4])
]
QUICK = ExperimentSettings(alphas=(0.0, 2.0), samples=12, k=2, candidates=6)


def retrieve(question: str) -> list[dict[str, Any]]:
    """The town that is asked for comes first."""
    first = int(question[-3:-1])
    order = [PLACES[(first + place) % 6] for place in range(6)]
    return [
        {"id": town, "text": f"The harbor of {town} opened.", "score": 1 - place / 10, "source": town[0]}
        for place, town in enumerate(order)
    ]


def answer(question: str, documents: list[dict[str, Any]]) -> str:
    """Says what the right document says, where it was given, else what the first one says."""
    first = PLACES[int(question[-3:-1])]
    wanted = [each for each in documents if each["id"] == first] or documents
    return wanted[0]["text"] if wanted else "Nothing was found."


def test_even_exposure_costs_this_pipeline_its_answers() -> None:
    """The order of the scores has the right document first: disparity, relevance and utility are 1, and less under
    chance; of two places the answer uses one."""
    again = [replace(each, id=f"{each.id}-{time}") for each in ASKED for time in range(3)]
    report = run_experiment(again, retrieve, answer, replace(QUICK, alphas=(0.0, 1.0)))
    even, some, fixed = report.alphas
    assert (even.alpha, some.alpha, fixed.alpha) == (0.0, 1.0, None)
    assert [fixed.means[name].value for name in MEASURES] == pytest.approx([1, 1, 1, 0.5, 1])
    for name in ("disparity", "relevance", "utility", "consumption"):
        values = [each.means[name].value or 0.0 for each in report.alphas]
        assert values == sorted(values)
        assert values[0] < 1
    assert report.useful_by == {"gold": 12}
    assert report.curves["utility"].slope is not None
    assert report.curves["utility"].slope > 0
    assert [finding.holds for finding in report.findings] == [True, False, True]


def test_each_list_of_documents_is_asked_once() -> None:
    """However many rankings begin with it."""
    asked: Counter[tuple[str, ...]] = Counter()

    def counting(question: str, documents: list[dict[str, Any]]) -> str:
        asked[question, *(each["id"] for each in documents)] += 1
        return answer(question, documents)

    report = run_experiment(ASKED, retrieve, counting, QUICK)
    assert set(asked.values()) == {1}
    assert report.answered == len(asked)


def test_what_is_useful_by_utility() -> None:
    """The document from which alone the answer is worth more than from none: here the one of the gold, and those that
    share words with the reference; by the same seed the same report."""
    exact = ExperimentSettings(alphas=(1.0,), samples=5, k=2, useful="utility", utility="exact-match")
    report = run_experiment(ASKED, retrieve, answer, exact)
    assert report.useful_by == {"utility": 4}
    assert report.alphas[-1].means["relevance"].value == 1
    assert run_experiment(ASKED, retrieve, answer, exact) == report


def test_by_provider() -> None:
    """Exposure of all that one provider gives counts together: with six towns of five initials no one has all."""
    by_source = ExperimentSettings(alphas=(0.0,), samples=12, k=2, by="source")
    report = run_experiment(ASKED, retrieve, answer, by_source)
    assert report.by == "source"
    assert report.alphas[0].means["disparity"].value is not None


def test_the_order_of_the_scores_is_not_held_against_itself() -> None:
    """By provider its disparity may lie low: nothing more even was looked at, so nothing is said of it."""
    again = [replace(each, id=f"{each.id}-{time}") for each in ASKED for time in range(3)]
    report = run_experiment(again, retrieve, answer, replace(QUICK, alphas=(60.0,), by="source"))
    assert report.alphas[-1].means["disparity"].value < 0.8  # type: ignore[operator]
    assert report.findings[1].holds is None
    assert sum(each.requests for each in report.intervals) == 12
    harmed = run_experiment(again, retrieve, answer, replace(QUICK, alphas=(0.0,), by="source"))
    assert harmed.findings[1].holds is not True


def test_of_harm_at_the_margin_no_more_than_its_chance_is_called_none() -> None:
    """Four intervals, in each of which answers lose just what counts as a loss: of 60 such runs hardly one holds."""
    chance, holds = np.random.default_rng(3), 0
    for seed in range(60):
        losses = chance.normal(-0.02, 0.1, (12, 4))
        places = np.tile([0.1, 0.3, 0.5, 0.7], (12, 1))
        found = interval_differences(places, losses, np.zeros(12), seed=seed, margin=0.02, fewest=10)
        holds += _harmless(found).holds is True
    assert holds <= 5


def test_questions_without_a_ranking_are_left_out_by_reason() -> None:
    """Nothing found, no scores, and too few."""
    found: list[list[Any]] = [
        [],
        [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}],
        [{"id": "a", "text": "x", "score": 1.0}],
    ]
    answers = iter(found)
    report = run_experiment(ASKED[:3], lambda question: next(answers), answer, QUICK)
    assert sum(report.left_out.values()) == 3
    assert "a candidate lacks its score or its text" in report.left_out
    assert report.questions == 0
    assert "No question could be counted" in experiment_page(report)


def test_a_pipeline_that_fails_names_the_question() -> None:
    """And how it was called."""
    with pytest.raises(ConfigurationError, match=r"failed on question q0.*ZeroDivisionError"):
        run_experiment(ASKED, retrieve, lambda question, documents: 1 / 0, QUICK)


@pytest.mark.parametrize(
    "changes",
    [{"alphas": ()}, {"alphas": (-1.0,)}, {"k": 0}, {"utility": "bleu"}, {"useful": "guess"}, {"alphas": (1.0, 1.0)}],
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigurationError):
        ExperimentSettings(**changes)


def test_the_page_has_the_figures_and_loads_nothing() -> None:
    """Four figures, three tables, the findings."""
    report = run_experiment(ASKED, retrieve, answer, QUICK)
    page = experiment_page(report)
    assert page.count("<svg") == 4 == len(experiment_figures(report))
    assert page.count("<table") == 3
    assert "not decided" in page  # of the answers: four questions are too few
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
