"""The verdict's benchmark on a small domain of its own: what it reads, breaks and records, and how it counts."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any

import numpy as np
import pytest

import ragtrace
from bench.verdicts import debian, pipeline
from bench.verdicts.alterations_injector import AlterationsInjector
from bench.verdicts.fitting import SCORES, Row, fit_all
from bench.verdicts.handwritten import DOMAINS, DomainError, read_domain
from bench.verdicts.label_judge import LabelJudge
from bench.verdicts.measurement import Finding, Plan, Result, measured
from bench.verdicts.model import Domain, Fault, Path, Setup, Stage
from bench.verdicts.phrasing import Entry, phrased
from bench.verdicts.pipeline import Service, answer_without_evidence, bare, index_of, lost_groups, marks_of, path_of
from bench.verdicts.published import read_published
from bench.verdicts.recording import (
    answer_text,
    facets_of,
    metadata_of,
    packing_of,
    prompt_of,
    queries_of,
    record_of,
)
from bench.verdicts.report import mixed, outcome, report, risk_curve
from bench.verdicts.service_calibration import _judge as service_judge
from ragtrace.analyze import ServiceView
from ragtrace.analyze._verification import Models
from ragtrace.coverage.text import content_words
from ragtrace.store import Store
from ragtrace.types import RequestRecord, StageRun, replace as changed

TOWNS = """
domain: towns
about: Crafts and fairs of invented towns.
passages:
  - id: aldford-glass
    title: "Aldford: glass makers"
    text: |
      Aldford lies on the river Ash. Visitors come by boat in the summer. The glass makers of Aldford employed 43
      apprentices in 1628 and were led by Marten Oakes. Their workshop was not open on Sundays.
  - id: aldford-fair
    title: "Aldford: the fair"
    text: |
      The fair of Aldford takes place in the second week of September. Stalls cost 12 shillings for each day. Dogs are
      not allowed on the meadow.
  - id: brindle-rope
    title: "Brindle: rope makers"
    text: |
      Brindle is known for its harbor. Visitors like the quiet garden. The rope makers of Brindle employed 57
      apprentices in 1645 and were led by Sigrid Vale. Their workshop was closed in winter.
  - id: brindle-fair
    title: "Brindle: the fair"
    text: |
      The fair of Brindle takes place in the first week of May. Stalls cost 15 shillings for each day. Dogs must be on
      a leash.
  - id: corvale-bells
    title: "Corvale: bell makers"
    text: |
      Corvale has the oldest church of the county. The bell makers of Corvale employed 21 apprentices in 1662 and were
      led by Tobias Crane. Marten Oakes visited them twice, and Sigrid Vale once.
  - id: corvale-fair
    title: "Corvale: the fair"
    text: |
      The fair of Corvale takes place in the last week of June. Stalls cost 9 shillings for each day. It rains often.
  - id: dunmere-clocks
    title: "Dunmere: clock makers"
    text: |
      Dunmere stands in the middle of the moor. The clock makers of Dunmere employed 34 apprentices in 1679 and were led
      by Helena Frost. Tobias Crane sold their clocks.
questions:
  - id: q-glass
    kind: plain
    question: How many apprentices did the glass makers of Aldford employ in 1628?
    evidence: [[aldford-glass]]
    facets: [{kind: entity, value: Aldford}, {kind: date, value: "1628"}]
    answers:
      - "In the year 1628 there were 43 apprentices {aldford-glass}. Their leader was called Marten Oakes
        {aldford-glass}. The workshop was not open on Sundays {aldford-glass}."
    broken:
      made_up: "They had more than a hundred of them, who came from abroad."
      misled: {rests_on: brindle-rope, answer: "They employed 57 apprentices {brindle-rope}."}
  - id: q-fairs
    kind: comparison
    question: Is a stall at the fair of Aldford cheaper than one at the fair of Brindle?
    evidence: [[aldford-fair], [brindle-fair]]
    answers:
      - "Yes: Aldford takes 12 shillings for each day {aldford-fair} and Brindle takes 15 {brindle-fair}."
  - id: q-follow
    kind: follow_up
    history: ["Who led the clock makers of Dunmere?", "Helena Frost led them."]
    question: And how many apprentices did they employ?
    evidence: [[dunmere-clocks]]
    answers: ["The clock makers employed 34 apprentices in 1679 {dunmere-clocks}."]
  - id: q-none
    kind: unanswerable
    question: What does the ferry to Eastwick cost?
    evidence: []
    answers: ["The documents say nothing about the price of a ferry to Eastwick."]
"""
SERVICES = (
    Service("plain", Setup(4, 3)),
    Service("full", Setup(6, 3, reranked=True, metadata=True, cites=True, facets=True, rounds=3)),
    Service("unscored", Setup(6, 4, cites=True, scores=False)),
)


class WordEncoder:
    """Texts as counts of hashed words: a lexical retriever behind the encoder's face."""

    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors of unit length: `(n, 512)`."""
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in content_words(text):
                vectors[row, zlib.crc32(word.encode()) % 512] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)


@pytest.fixture
def towns(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> Domain:
    """The small domain, searched by its words."""
    monkeypatch.setattr(pipeline, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(pipeline, "packaged", WordEncoder)
    return read_domain(_written(tmp_path, TOWNS))


def _written(folder: File, text: str) -> File:
    file = folder / "towns.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def _sound(domain: Domain, service: Service, question_id: str) -> Path:
    question = next(each for each in domain.questions if each.id == question_id)
    found = path_of(index_of(domain), question, service, seed=1)
    assert found is not None
    assert found.broken is None
    return found.path


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("evidence: [[aldford-glass]]", "evidence: [[aldford-glas]]", "question q-glass: evidence 'aldford-glas'"),
        ("  - id: aldford-fair", "  - id: aldford-glass", "passage aldford-glass: this id is given twice"),
        ("  - id: q-fairs", "  - id: q-glass", "question q-glass: this id is given twice"),
        ("{dunmere-clocks}.", "{dunmere-clock}.", "question q-follow: the mark {dunmere-clock}"),
        ("kind: follow_up", "kind: followup", "question q-follow: kind 'followup'"),
        ("rests_on: brindle-rope", "rests_on: rope", "question q-glass, misled: 'rope'"),
        ("made_up: ", "madeup: ", "question q-glass, broken: unknown: madeup"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(tmp_path: File, old: str, new: str, named: str) -> None:
    """The file, the passage or question, and what is wrong."""
    file = _written(tmp_path, TOWNS.replace(old, new, 1))
    with pytest.raises(DomainError, match=re.escape(f"{file}, {named}")):
        read_domain(file)


@pytest.mark.parametrize("file", sorted(DOMAINS.glob("*.yaml")), ids=lambda file: str(file.stem))
def test_the_files_of_the_project_can_be_read(file: File) -> None:
    """Each is called by its domain's name."""
    assert read_domain(file).name == file.stem


def test_a_sound_path_has_its_evidence_in_the_prompt_and_cites_only_that(towns: Domain) -> None:
    """In each application; where it does not cite, the answer has no marks."""
    for service in SERVICES:
        for question in towns.questions:
            path = _sound(towns, service, question.id)
            assert not lost_groups(question, path.packed)
            assert set(marks_of(path.answer, towns)) <= {each.id for each in path.packed}
            assert len(path.earlier) == service.setup.rounds - 1
            needed = {name for group in question.evidence for name in group}
            assert not needed & {hit.id for hits in path.earlier for hit in hits}
            has_marks = bool(re.search(r"\[\d\]", answer_text(path, towns)))
            assert has_marks == bool(service.setup.cites and question.evidence)


def test_a_follow_up_is_searched_for_with_the_turn_before(towns: Domain) -> None:
    """As a rewriter would do, and it is recorded as rewritten."""
    path = _sound(towns, SERVICES[0], "q-follow")
    assert path.rewritten == "Who led the clock makers of Dunmere? And how many apprentices did they employ?"
    assert record_of(path, towns).query.rewritten == path.rewritten


def test_what_the_application_loses_by_itself_is_a_natural_failure(towns: Domain) -> None:
    """Of retrieval where it is no candidate, of ranking where it is not packed."""
    question = next(each for each in towns.questions if each.id == "q-fairs")
    index = index_of(towns)
    narrow = path_of(index, question, Service("narrow", Setup(1, 1)), seed=1)
    tight = path_of(index, question, Service("tight", Setup(6, 1)), seed=1)
    assert narrow is not None
    assert tight is not None
    assert (narrow.broken, tight.broken) == ("retrieval", "ranking")
    assert {narrow.answered, tight.answered} <= {"misled", "refusal", "made_up"}


def _broken(domain: Domain) -> Iterator[tuple[Path, Path, Fault]]:
    injector = AlterationsInjector()
    for service in SERVICES:
        for question in domain.questions:
            path = _sound(domain, service, question.id)
            for fault in injector.faults:
                broken = injector.inject(path, domain, fault, random.Random(1))
                if broken is not None:
                    yield path, broken, fault


def test_a_fault_breaks_its_stage_and_none_before_it(towns: Domain) -> None:
    """Told from candidates, prompt and answer."""
    seen = set()
    for path, broken, fault in _broken(towns):
        seen.add(fault.name)
        question = path.question
        answers = {bare(answer, towns) for answer in question.answers}
        is_sound = bare(broken.answer, towns) in answers
        assert bool(lost_groups(question, broken.candidates)) == (fault.stage == "retrieval"), fault
        assert bool(lost_groups(question, broken.packed)) == (fault.stage in ("retrieval", "ranking")), fault
        assert is_sound == (fault.stage == "citation" or (is_sound and "made_up" in fault.name)), fault
        if fault.stage == "citation":
            assert answer_text(path, towns) != answer_text(broken, towns)
    assert {"numbers", "dates", "names", "negation", "half", "other_answer", "refusal"} <= seen
    assert {"removed+misled", "sunk+refusal", "dropped+made_up", "truncated+refusal", "unmarked", "mismarked"} <= seen


@pytest.mark.parametrize("name", ["shifted", "neighboring", "lumped", "one_wrong"])
def test_a_mark_is_wrong_only_where_its_chunk_lacks_what_the_right_one_says(towns: Domain, name: str) -> None:
    """Some mark names a chunk without a figure or a third of the words that the right one bears the claim out with."""
    question = next(each for each in towns.questions if each.id == "q-fairs")
    for service in (each for each in SERVICES if each.setup.cites):
        path = _sound(towns, service, question.id)
        [fault] = [each for each in AlterationsInjector().faults if each.name == name]
        broken = AlterationsInjector().inject(path, towns, fault, random.Random(3))
        if broken is None:
            continue
        before, after = marks_of(path.answer, towns), marks_of(broken.answer, towns)
        moved = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
        assert bare(broken.answer, towns) == bare(path.answer, towns)
        assert moved
        assert set(after) <= {each.id for each in path.packed}
        assert len(set(after)) == 1 if name == "lumped" else True
        assert len(moved) == 1 if name == "one_wrong" else True
        return
    pytest.fail(f"no answer to {question.id} offers a way for {name}")


def test_a_service_that_does_not_cite_has_no_citation_fault(towns: Domain) -> None:
    """Whatever the answer's marks."""
    injector = AlterationsInjector()
    path = _sound(towns, SERVICES[0], "q-glass")
    faults = [fault for fault in injector.faults if fault.stage == "citation"]
    assert not any(injector.inject(path, towns, fault, random.Random(1)) for fault in faults)


def test_a_misled_answer_needs_what_it_rests_on(towns: Domain) -> None:
    """Its near miss is in the prompt, or there is no such answer."""
    path = _sound(towns, SERVICES[0], "q-glass")
    rests = [each for each in path.packed if each.id == "brindle-rope"]
    others = [each for each in path.packed if each.id != "brindle-rope"]
    rng = random.Random(1)
    assert answer_without_evidence("misled", replace(path, packed=tuple(others)), towns, rng) is None
    assert rests
    assert answer_without_evidence("misled", path, towns, rng) == "They employed 57 apprentices {brindle-rope}."


def test_the_record_is_that_of_the_public_face(towns: Domain, tmp_path: File) -> None:
    """Sound and broken paths through decorators' verbs give the records that are built directly."""
    paths = [_sound(towns, service, question.id) for service in SERVICES for question in towns.questions]
    paths += [broken for _, broken, _ in _broken(towns)][::5]
    url = f"sqlite:///{tmp_path / 'requests.db'}"
    ragtrace.configure(service="verdict-bench", store=url, enabled=True, sample_rate=1.0, capture_content="full")
    try:
        ids = [_run(path, towns) for path in paths]
    finally:
        ragtrace.shutdown(timeout=60.0)
    with Store.open(url) as store:
        records = store.get_records(ids)
    for request_id, path in zip(ids, paths, strict=True):
        assert _timeless(records[request_id]) == _timeless(record_of(path, towns))


def _run(path: Path, domain: Domain) -> str:
    """The path as an application would go it."""
    with ragtrace.request(query=path.question.question, facets=facets_of(path)) as request:
        request.set(versions=dict(path.versions), cites=path.setup.cites)
        for query, hits in zip(queries_of(path), (*path.earlier, path.candidates), strict=True):
            with ragtrace.retrieve(query=query, top_k=path.setup.depth, name="search") as retrieval:
                found = []
                for hit in hits:
                    score = {"score": hit.score} if path.setup.scores else {}
                    metadata = metadata_of(path, domain, hit.id)
                    text = domain.passages[hit.id].chunk
                    found.append({"id": hit.id, "text": text, **score, **({"metadata": metadata} if metadata else {})})
                retrieval.candidates(found)
        if path.reranked is not None:
            with ragtrace.rerank(candidates=found, name="rerank") as reranking:
                found = [{"id": hit.id, "score": hit.score} for hit in path.reranked]
                reranking.candidates(found)
        with ragtrace.pack(candidates=found, name="pack") as packing:
            packing.packed(packing_of(path))
        with ragtrace.generate(prompt=prompt_of(path), name="answer") as generation:
            generation.answer(answer_text(path, domain))
        return request.request_id


def _timeless(record: RequestRecord) -> RequestRecord:
    """Without what no two runs have in common."""
    stages: tuple[StageRun, ...] = tuple(changed(run, started_at=0, ended_at=0, span_id=None) for run in record.stages)
    stated = {name: version for name, version in record.versions.items() if name != "prompt_hash"}  # the store finds it
    timeless = changed(record, request_id="", started_at=0, ended_at=0, trace_id=None, span_id=None, schema_version=0)
    return changed(timeless, stages=stages, versions=stated)


def test_a_judge_that_knows_the_labels_is_right_of_sound_answers_and_evidence(towns: Domain) -> None:
    """Each claim of a sound answer rests on its evidence, which is relevant, and the answer is one to its question."""
    judge = LabelJudge(towns, 0.0)
    for question in towns.questions:
        named = sorted(set().union(*question.evidence))
        chunks = [towns.passages[each].chunk for each in towns.passages]
        relevant = judge.relevant([(question.question, chunk) for chunk in chunks])
        assert {each for each, chance in zip(towns.passages, relevant, strict=True) if chance > 0.5} >= set(named)
        if not named:
            continue
        answer = bare(question.answers[0], towns)
        whole = " ".join(towns.passages[each].text for each in named)
        assert judge.verify([(answer, whole)])[0][0] > 0.5
        assert judge.verify([(f"{answer} This was said by nobody", whole)])[0][0] < 0.5
        assert judge.answers([(question.question, answer)])[0] > 0.5
        assert judge.answers([(question.question, pipeline.REFUSALS[0])])[0] < 0.5


def test_a_judge_that_knows_the_labels_sees_what_is_altered_in_the_first_words(towns: Domain) -> None:
    """A sentence that begins otherwise than the passage is not borne out; one that the pipeline introduces is."""
    judge = LabelJudge(towns, 0.0)
    passage = next(each for each in towns.passages.values() if len(each.text.split()) > 12)
    sentence = passage.text.split(". ")[0]
    rest = " ".join(sentence.split()[2:])
    assert judge.verify([(f"According to the documents, {sentence}", passage.chunk)])[0][0] > 0.5
    assert judge.verify([(f"It is not {rest}", passage.chunk)])[0][0] < 0.5


def test_a_judge_that_knows_the_labels_reads_claims_of_one_figure(towns: Domain) -> None:
    """ "£9." is borne out where a sound answer holds that word, by what bears the answer out."""
    judge = LabelJudge(towns, 0.0)
    judge.__dict__["_known"] = [("9 separately you pay 43 and 28", ("the family ticket is 62",))]
    pairs = [("£9.", "The family ticket is £62."), ("£8.", "The family ticket is £62."), ("£9.", "Dogs stay outside.")]
    assert [support > 0.5 for support, _ in judge.verify(pairs)] == [True, False, False]


def test_a_calibration_is_fitted_on_what_its_model_says(towns: Domain) -> None:
    """Claims are judged by the model where one is given, in copies as in the requests themselves, else by words."""
    setup = next(each for each in pipeline.SERVICES)
    natural = path_of(index_of(towns), towns.questions[0], setup, 0)
    assert natural is not None
    record = record_of(natural.path, towns)
    views = {record.request_id: ServiceView()}
    copy = changed(record, request_id=f"{record.request_id}:altered")
    by_model = service_judge(views, Models((LabelJudge(towns, 0.0),)))([record, copy])
    by_words = service_judge(views, Models())([record])
    assert {claim.layer for analysis, _ in by_model.values() for claim in analysis.claims if claim.factual} == {
        "entailment"
    }
    assert {claim.layer for analysis, _ in by_words.values() for claim in analysis.claims} == {"lexical"}


def test_scores_are_fitted_where_their_signs_are_known() -> None:
    """That of a judge is left out where no request was graded."""
    names = {name for recipe in SCORES for name in recipe.features}

    def row(number: int, usable: frozenset[str]) -> Row:
        truth, injector = ((None, "sound"), ("ranking", "swaps"), ("ranking", "alterations"))[number % 3]
        features = dict.fromkeys(names, float(truth is not None) + number / 100)
        return Row(f"d{number % 2}", injector, None, truth, features, usable)

    ungraded = [row(number, frozenset({"RANKING"})) for number in range(30)]
    assert [one.recipe.name for one in fit_all(ungraded)] == ["RANKING"]
    graded = [row(number, frozenset({"RANKING", "GRADED"})) for number in range(30)]
    assert [one.recipe.name for one in fit_all(graded)] == ["RANKING", "GRADED"]


def test_a_noisy_judge_errs_as_often_as_it_is_told_and_always_alike(towns: Domain) -> None:
    """Of a thousand pairs a fifth is turned around; the same pair is judged the same again."""
    judge = LabelJudge(towns, 0.2)
    pairs = [(f"Who led guild {number}?", "Nobody knows.") for number in range(1000)]
    said = judge.relevant(pairs)
    assert set(said) == {0.2, 0.8}
    assert 0.16 < sum(chance == 0.8 for chance in said) / 1000 < 0.24
    assert judge.relevant(pairs) == said


def test_errors_that_go_together_are_those_of_one_claim_and_of_one_beginning(towns: Domain) -> None:
    """As many as those that do not; another draw errs elsewhere."""
    judge, other = (LabelJudge(towns, 0.2, seed, together=True) for seed in (0, "0+1"))
    claims = [f"Guild {number} was led by nobody." for number in range(500)]
    evidence = ("Nobody knows.", "The guild was led by Anna.")
    first, second = ([said for said, _ in judge.verify([(claim, text) for claim in claims])] for text in evidence)
    assert first == second
    assert 0.14 < sum(chance > 0.5 for chance in first) / 500 < 0.26
    assert first != [said for said, _ in other.verify([(claim, evidence[0]) for claim in claims])]
    chunk = "Guilds paid a fee to the council, which met on Mondays in the hall, and kept a list of all that were paid."
    pairs = [(f"Who led guild {number}?", chunk) for number in range(500)]
    longer = [(question, f"{text}\n\nNobody knows.") for question, text in pairs]
    turned = [(question, f"Nobody knows.\n\n{text}") for question, text in pairs]
    assert judge.relevant(pairs) == judge.relevant(longer) != judge.relevant(turned)


def test_the_same_seed_gives_the_same_requests(towns: Domain) -> None:
    """And another one others."""
    first, again, other = (list(measured([towns], Plan(seed, ("alterations",)))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert {each.injector for each in first} == {"sound", "alterations"}


def _result(truth: Stage | None, named: Stage | None = None, **states: Any) -> Result:
    findings: dict[Any, Finding] = {stage: Finding("sound") for stage in ("retrieval", "ranking", "generation")}
    findings |= {stage: Finding(state) for stage, state in states.items()}
    if named:
        findings[named] = Finding("broken", "why")
    injector, fault = ("sound", None) if truth is None else ("alterations", "x")
    return Result("towns", "handwritten", "q", "plain", "k4", 4, True, injector, fault, truth, "", named, findings, ())


def test_an_outcome_is_one_of_five() -> None:
    """Right, wrong, and without a named stage what is said of the broken one."""
    assert outcome(_result("ranking", "ranking")) == "right"
    assert outcome(_result("ranking", "generation")) == "wrong"
    assert outcome(_result("ranking", ranking="suspected")) == "suspected"
    assert outcome(_result("ranking")) == "sound"
    assert outcome(_result("ranking", ranking="not_known")) == "nothing"
    assert outcome(_result("citation")) == "nothing"


def test_the_mix_weighs_sound_requests_as_production_has_them() -> None:
    """One of ten sound requests blamed, half of the retrieval faults right and a quarter wrong, by hand."""
    sound = [*[_result(None)] * 9, _result(None, "generation")]
    broken = [_result("retrieval", "retrieval"), _result("retrieval", "retrieval"), _result("retrieval", "ranking")]
    found = mixed(sound, [*broken, _result("retrieval")])
    assert found is not None
    assert found.precision == pytest.approx(0.08 * 0.5 / (0.80 * 0.1 + 0.08 * 0.75))
    assert found.recall == pytest.approx(0.5)
    assert found.blamed == pytest.approx((0.80 * 0.1 + 0.08 * 0.75) / 0.88)
    assert mixed([], broken) is None


def test_the_curve_believes_the_safest_verdicts_first() -> None:
    """Risk grows with coverage; a verdict that nothing is known of adds to neither."""
    sound = [_result(None), _result(None), _result(None, ranking="not_known"), _result(None, "generation")]
    broken = [_result("retrieval", "retrieval"), _result("retrieval", retrieval="suspected")]
    points = risk_curve(sound, broken)
    safe = ["all stages sound", "retrieval broken, why", "retrieval suspected"]
    assert [point.rule for point in points] == [*safe, "generation broken, why"]
    assert [point.risk for point in points[:3]] == [0.0, 0.0, 0.0]
    assert points[-1].coverage == pytest.approx((0.80 * 0.75 + 0.08) / 0.88)
    assert points[-1].risk == pytest.approx(0.80 * 0.25 / (0.80 * 0.75 + 0.08))


def test_the_report_has_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Sound, broken, natural, the mix and the curve."""
    natural = replace(_result("retrieval"), injector="natural", fault="retrieval+refusal")
    report([_result(None), _result("ranking", "ranking"), natural], detail=True)
    printed = capsys.readouterr().out
    titles = ["sound requests by domain", "k >= 4", "faults of the injector alterations", "natural failures"]
    for title in (*titles, "at the mix", "risk against coverage"):
        assert title in printed


def test_an_entry_is_asked_in_several_forms_and_answered_in_other_words() -> None:
    """Of a parameter: what it does, how to do it, its default; no answer is a sentence of the entry."""
    entry = Entry("page", "Memory", "work_mem", "parameter", "PostgreSQL", (
        "Sets the base maximum amount of memory to be used by a query operation.",
        "The default value is four megabytes (4MB).",
    ))  # fmt: skip
    found = list(phrased(entry))
    assert {each.kind for each in found} == {"plain", "procedure", "short"}
    questions = [each.question for each in found]
    assert "What does work_mem do in PostgreSQL?" in questions
    assert "How do I set the base maximum amount of memory to be used by a query operation in PostgreSQL?" in questions
    assert "work_mem default value" in questions
    said = {sentence.rstrip(".") for sentence in entry.sentences}
    assert not any(answer.replace(" {}", "").rstrip(".") in said for each in found for answer in each.answers)


def test_a_duty_is_asked_for_and_negated_rightly() -> None:
    """What must not be done is answered with no."""
    sentence = "Packages in the main archive area must not require a package outside of it."
    found = list(phrased(Entry("page", "The main archive area", "", "section", "Debian policy", (sentence,))))
    asked = {each.question: each.answers for each in found}
    answers = asked["May packages in the main archive area require a package outside of it?"]
    assert all(answer.startswith("No") for answer in answers)
    assert not list(phrased(Entry("page", "X", "", "section", "Debian policy", ("They must be in the same file.",))))


def test_a_manual_becomes_passages_and_questions(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question's evidence is the passage that names its entry and says what the answer rests on."""
    folder = tmp_path / "postgresql-doc-15" / "html"
    folder.mkdir(parents=True)
    names = "alpha beta gamma delta".split()
    more = "It is read at the start of the server. " * 8
    terms = "".join(
        f'<dt><span><code class="varname">{name}_size</code></span></dt><dd><p>Sets the size of the {name} store '
        f"in pages of memory. {more}The default value is {row} pages.</p></dd>"
        for row, name in enumerate(names, 2)
    )
    page = f"<html><head><title>20.4. Stores</title></head><body><dl>{terms}</dl></body></html>"
    (folder / "runtime-config-stores.html").write_text(page, encoding="utf-8")
    monkeypatch.setattr(debian, "_DOCS", tmp_path)
    domain = debian.read_debian("postgresql")
    assert len(domain.passages) == len(domain.questions) == 4
    for question in domain.questions:
        (group,) = question.evidence
        (home,) = group
        assert all(marks_of(answer, domain) for answer in question.answers)
        assert set(re.findall(r"\w+_size", question.question)) <= set(
            re.findall(r"\w+_size", domain.passages[home].text)
        )


def test_an_absent_corpus_or_data_set_is_an_error(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the script turns into a line."""
    monkeypatch.setattr(debian, "_DOCS", tmp_path)
    with pytest.raises(FileNotFoundError):
        debian.read_debian("debian-policy")
    with pytest.raises(FileNotFoundError):
        read_published("mtrag", tmp_path)
