"""The questions: number, classes, facets and oracle evidence."""

from __future__ import annotations

from collections import Counter

from ragtrace.coverage import facet_matrix, joint_query_coverage, query_coverage
from ragtrace.demo._corpus import load_corpus, load_questions
from ragtrace.types import Candidate


def test_number_and_classes() -> None:
    """At least 120 different questions in five query classes, none of them rare."""
    questions = load_questions()
    classes = Counter(question.query_class for question in questions)
    assert len({question.text for question in questions}) == len(questions) >= 120
    assert set(classes) == {"limit", "exception", "deadline", "change", "eligibility"}
    assert min(classes.values()) >= 15


def test_wording_has_no_placeholder_and_ends() -> None:
    """Every question is a finished sentence."""
    for question in load_questions():
        assert "{" not in question.text
        assert question.text[-1] in "?."


def test_evidence_exists() -> None:
    """Each oracle chunk exists and holds the sentence that answers."""
    chunks = load_corpus().by_id
    for question in load_questions():
        assert question.evidence
        assert all(sentence in chunks[chunk_id].text for chunk_id, sentence in question.evidence.items())


def test_evidence_of_exceptions_and_changes() -> None:
    """An exception needs the cover and its exception of one document; a change needs two editions of one wording."""
    chunks = load_corpus().by_id
    for question in load_questions():
        found = [chunks[chunk_id] for chunk_id in question.chunk_ids]
        if question.query_class == "exception":
            assert {chunk.kind for chunk in found} == {"cover", "exception"}
            assert len({chunk.doc_id for chunk in found}) == 1
        elif question.query_class == "change":
            assert len({chunk.document.year for chunk in found}) == 2
            assert len({(chunk.document.code, chunk.source) for chunk in found}) == 1
        else:
            assert len(found) == 1


def test_answers_of_a_change_differ() -> None:
    """What a change question compares is not the same in both editions."""
    for question in load_questions():
        if question.query_class == "change":
            assert len(set(question.evidence.values())) == 2


def test_facets_are_met_by_the_evidence_alone() -> None:
    """The oracle chunks meet all required facets, so that missing facets mean missing evidence."""
    chunks = load_corpus().by_id
    for question in load_questions():
        candidates = [
            Candidate(chunk_id=name, rank=rank, text=chunks[name].text, metadata=dict(chunks[name].metadata))
            for rank, name in enumerate(question.chunk_ids, 1)
        ]
        matrix = facet_matrix(question.facets, candidates)
        assert query_coverage(question.facets, candidates, matrix=matrix) == 1.0, question.text
        joint = joint_query_coverage(question.facets, candidates, matrix=matrix)
        assert joint is not None
        assert joint >= 0.7


def test_gold() -> None:
    """A question's gold entry carries its evidence, class and facets."""
    question = load_questions()[0]
    gold = question.gold("assistant")
    assert (gold.service, gold.question) == ("assistant", question.text)
    assert gold.chunk_ids == question.chunk_ids
    assert gold.facets == question.facets


def test_every_source_is_asked_for() -> None:
    """At least 20 questions rest on each source, so that a lost source is felt."""
    chunks = load_corpus().by_id
    sources = Counter(chunks[question.chunk_ids[0]].source for question in load_questions())
    assert len(sources) == 5
    assert min(sources.values()) >= 20
