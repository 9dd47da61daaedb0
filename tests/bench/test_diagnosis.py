"""The diagnosis benchmark on a small corpus of its own: what the injections break, and what is counted as right."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from bench import diagnosis
from bench.datasets import Case, DataSet, Statement, half_of, read
from bench.diagnosis import Diagnosed, Result, diagnosed, report
from bench.faults.model import passage
from bench.faults.requests import Plan, components_for, requests_of
from ragtrace.coverage.text import content_words
from ragtrace.demo.retrieval import DenseIndex, Retriever
from ragtrace.wilson import wilson

TOWNS = "Aldford Brindle Corvale Dunmere Eastwick Farrow Glenhaven Harrowby Ilmster Jarrow Kelso Lyndale".split()
CRAFTS = "glass rope paper bells clocks boats cheese wool salt tiles pottery candles".split()
FOUNDERS = "Marten Oakes,Sigrid Vale,Tobias Crane,Helena Frost,Ruben Pike,Agnes Holt".split(",")
RIVERS = "Ash Birch Cedar Dove Elm Fern".split()


class WordEncoder:
    """Texts as counts of hashed words: a lexical retriever behind the encoder's face."""

    name = "words"

    def encode(self, texts: Sequence[str], **options: Any) -> Any:
        """Vectors of unit length: `(n, 512)`."""
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in content_words(text):
                vectors[row, zlib.crc32(word.encode()) % 512] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)

    def count_tokens(self, text: str) -> int:
        """One for each word."""
        return len(text.split())

    def truncate(self, text: str, tokens: int) -> str:
        """The first words."""
        return re.match(rf"(?:\S+\s*){{0,{tokens}}}", text)[0]  # type: ignore[index]


def towns() -> DataSet:
    """Nine passages for each of twelve towns, one of them about its craft, which its question asks for."""
    passages, cases = {}, []
    for number, (town, craft) in enumerate(zip(TOWNS, CRAFTS, strict=True)):
        year, count = 1611 + 17 * number, 40 + 3 * number
        founder, river = FOUNDERS[number % 6], RIVERS[number % 6]
        made = f"The {craft} makers of {town} were led by {founder} and employed {count} apprentices in {year}."
        fair = f"Their workshop is located beside the old bridge over the {river} River."
        passages[f"{town}-craft"] = (
            f"Crafts of {town}\nMany trades came and went here. {made} {fair} It was sold later."
        )
        for about in "harbor church market school museum station theater library".split():
            passages[f"{town}-{about}"] = (
                f"The {about} of {town}\nThe {about} stands in the middle. Visitors like its quiet garden. "
                f"It employs many helpers, and a {about} warden looks after the gates."
            )
        question = f"how many apprentices did the {craft} makers of {town} employ"
        answer = tuple(Statement(text, f"{town}-craft") for text in (made, fair))
        cases.append(Case(town, town, question, question, {f"{town}-craft": (made, fair)}, answer))
    return DataSet("towns", passages, cases)


@pytest.fixture(scope="module")
def found() -> list[Diagnosed]:
    """Every request of the small corpus, recorded and diagnosed."""
    for module in ("faiss", "bm25s"):
        pytest.importorskip(module, reason=f"{module} is not installed (pip install 'ragtrace[models]')")
    data, encoder = towns(), cast(Any, WordEncoder())
    chunks = [passage(name, text) for name, text in data.passages.items()]
    vectors = encoder.encode([chunk.text for chunk in chunks])
    healthy = components_for(Retriever(encoder, DenseIndex(chunks, vectors, "towns-1")))
    plan = Plan()
    requests = list(diagnosed(data, requests_of(data, data.cases, healthy, plan, singles=3)))
    assert plan.asked == plan.sound == len(TOWNS)
    return requests


def evidence(each: Diagnosed) -> tuple[str, str]:
    """All of the texts of its candidates that are the known evidence, and of its prompt."""
    needed = set(each.request.case.evidence)
    packing = each.record.packing
    assert packing is not None
    candidates = [chunk.text or "" for chunk in each.record.candidates if chunk.chunk_id in needed]
    return "\n".join(candidates), "\n".join(chunk.text or "" for chunk in packing.chunks)


def test_an_injection_breaks_its_own_stage_and_none_before_it(found: list[Diagnosed]) -> None:
    """Told from candidates, prompt and answer of the record; the healthy request of a question has all three sound."""
    sound = {each.request.case.case_id: each.record for each in found if not each.request.faults}
    for each in found:
        needed = [text for texts in each.request.case.evidence.values() for text in texts]
        candidates, prompt = evidence(each)
        in_candidates = all(text in candidates for text in needed)
        in_prompt = all(text in prompt for text in needed)
        assert each.record.generation is not None
        healthy = sound[each.request.case.case_id].generation
        assert healthy is not None
        same = each.record.generation.answer == healthy.answer
        assert {
            "healthy": in_candidates and in_prompt and same,
            "retrieval": not in_candidates and not in_prompt,
            "ranking": in_candidates and not in_prompt,
            "generation": in_candidates and in_prompt and not same,
        }[each.result.truth], each.result


def test_every_kind_of_fault_occurs_and_each_strength(found: list[Diagnosed]) -> None:
    """Dates, numbers, entities, negations and strange sentences in answers, and every other kind."""
    single = [each.request.faults[0] for each in found if len(each.request.faults) == 1]
    kinds = {fault.kind for fault in single}
    assert kinds >= {"drop", "stale", "strip", "demote", "swap", "truncate", "evict"}
    assert kinds >= {"numbers", "dates", "entities", "negate", "splice"}
    assert {fault.strength for fault in single} == {1, 2, 3}


def test_of_two_faults_the_earlier_stage_is_the_truth(found: list[Diagnosed]) -> None:
    """All three pairs of stages occur."""
    doubles = [each for each in found if len(each.request.faults) == 2]
    assert {tuple(fault.stage for fault in each.request.faults) for each in doubles} == {
        ("retrieval", "ranking"),
        ("retrieval", "generation"),
        ("ranking", "generation"),
    }
    assert all(each.result.truth == each.request.faults[0].stage for each in doubles)


def test_the_oracle_names_the_broken_stage(found: list[Diagnosed]) -> None:
    """Lost evidence always, altered answers nearly always, a healthy one never."""
    single = [each.result for each in found if len(each.result.faults) == 1]
    double = [each.result for each in found if len(each.result.faults) == 2]
    healthy = [each.result for each in found if not each.result.faults]
    assert all(each.oracle == each.truth for each in single if each.truth != "generation")
    assert sum(each.oracle == each.truth for each in single) >= 0.95 * len(single)
    assert sum(each.oracle == each.truth for each in double) >= 0.90 * len(double)
    assert all(each.oracle in ("healthy", "undetermined") for each in healthy)


def test_the_proxy_alone_names_most_of_them(found: list[Diagnosed]) -> None:
    """Without any known evidence."""
    broken = [each.result for each in found if each.result.faults]
    healthy = [each.result for each in found if not each.result.faults]
    assert sum(each.proxy == each.truth for each in broken) >= 0.70 * len(broken)
    assert all(each.proxy in ("healthy", "undetermined") for each in healthy)


def test_the_report_counts_right_and_blamed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nine of ten single faults right is 90 %, one of two healthy requests blamed is 50 %."""
    right = Result("towns", "r", ("drop",), 1, "retrieval", "retrieval", "retrieval")
    wrong = Result("towns", "r", ("drop",), 1, "retrieval", "ranking", "undetermined")
    healthy = Result("towns", "r", (), 0, "healthy", "healthy", "undetermined")
    blamed = Result("towns", "r", (), 0, "healthy", "generation", "generation")
    report([*[right] * 9, wrong, healthy, blamed])
    printed = capsys.readouterr().out
    assert printed.count("right first stage, one fault:   90.0% [59.6%, 98.2%] of 10") == 2
    assert printed.count("healthy requests blamed:        50.0% [9.5%, 90.5%] of 2") == 2


def test_wilson_interval() -> None:
    """Against the value of the formula by hand for 8 of 10, and sane at the edges."""
    assert wilson(8, 10, 1.96) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 5, 1.96)[0] == 0.0
    assert wilson(5, 5, 1.96)[1] == 1.0


def test_halves_are_of_whole_sources() -> None:
    """A source is always in the same half, and both halves hold about as many."""
    halves = [half_of(str(number)) for number in range(400)]
    assert halves == [half_of(str(number)) for number in range(400)]
    assert 150 < halves.count("development") < 250


def test_absent_data_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for each data set, and how to say where it is."""
    monkeypatch.setattr("sys.argv", ["diagnosis.py", "--data", str(tmp_path), "--sets", "clapnq", "mtrag"])
    diagnosis.main()
    assert capsys.readouterr().err.splitlines() == [
        f"{name}: not in {tmp_path}; give --data or RAGTRACE_BENCH_DATA" for name in ("clapnq", "mtrag")
    ]
    with pytest.raises(FileNotFoundError):
        read("scifact", tmp_path)
