"""A question before and after: what changed in answer, evidence and prompt, and where the texts are kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ragtrace.gate.policy import default_rule
from ragtrace.gate.question_pairs import Judged, question_pair, with_questions, word_changes
from ragtrace.gate.reports.questions import prompt_words
from ragtrace.gate.runs import read_report, run, save
from ragtrace.gate.types import Policy
from ragtrace.store import Finished, Store
from ragtrace.types import LostChunk, PackedChunk, Packing, PackRun, content_hash
from tests.gate.asked import judged, written

COUNT = 80


def test_an_answer_that_nothing_bears() -> None:
    """Both answers, the sentence and what is wrong with it, and the stage that broke."""
    pair = question_pair(judged("a"), judged("b", "Theft is never paid.", broken="generation", support=0.0))
    assert pair.question == "Is theft covered?"
    assert pair.baseline is not None
    assert (pair.baseline.answer, pair.candidate.answer) == ("Theft is covered up to 500 EUR.", "Theft is never paid.")
    assert (pair.baseline.sentence, pair.candidate.sentence) == (None, "Theft is never paid.")
    assert pair.candidate.sentence_state in ("not supported", "weakly supported")
    assert (pair.same_answer, pair.worsened, pair.recovered) == (False, ("generation",), ())
    assert pair.scores == {"answer_coverage": (1.0, 0.0)}


def test_a_needed_chunk_that_left_the_prompt() -> None:
    """Where it was lost, by the analysis or by what the record shows, with its words; and the other way round."""
    before = judged("a")
    told = LostChunk(chunk_id="c1", where="rerank", rank_before=1, rank_after=9)
    (lost,) = question_pair(before, judged("b", packed=("c2",), lost=[told])).lost
    assert (lost.chunk_id, lost.where, lost.rank_before, lost.rank_after) == ("c1", "rerank", 1, 9)
    assert lost.text == "Theft is covered up to 500 EUR."
    for found, where in ((("c1", "c2"), "packing"), (("c2",), "retrieval")):
        (lost,) = question_pair(before, judged("b", packed=("c2",), found=found)).lost
        assert lost.where == where
    back = question_pair(judged("b", packed=("c2",)), before)
    assert (back.lost, back.gained) == ((), ("c1",))


def test_the_same_words_in_another_chunk_are_not_lost() -> None:
    """Another chunker gives other ids; what is cut off is lost though its id is in the prompt."""
    from tests.gate import asked

    asked.TEXTS["big"] = f"General. {asked.TEXTS['c1']} Always."
    try:
        assert question_pair(judged("a"), judged("b", packed=("big",))).lost == ()
    finally:
        del asked.TEXTS["big"]
    cut = LostChunk(chunk_id="c1", where="truncation")
    assert [each.where for each in question_pair(judged("a"), judged("b", lost=[cut])).lost] == ["truncation"]


def test_what_became_of_the_prompt() -> None:
    """Chunks that came and went, their order, and what stands around them, whatever their number."""
    same = question_pair(judged("a"), judged("b")).prompt
    assert (same.added, same.removed, same.reordered, same.template) == ((), (), False, None)
    other = question_pair(judged("a", packed=("c1", "c2")), judged("b", packed=("c2", "c1", "c3"))).prompt
    assert (other.added, other.removed, other.reordered) == (("c3",), (), True)
    two, one = "Use:\n[1] {chunk:c1}\n[2] {chunk:c2}\nNow.", "Use:\n[1] {chunk:c1}\nNow."
    assert question_pair(judged("a", template=two), judged("b", packed=("c1",), template=one)).prompt.template is False
    stern = one.replace("Use", "Use only")
    assert question_pair(judged("a", template=two), judged("b", packed=("c1",), template=stern)).prompt.template is True


def test_the_same_chunk_with_another_text() -> None:
    """By hashes where texts are not stored, and by either against the other; what is not known is no change."""

    def stored(name: str, text: str | None, key: str | None = None) -> Judged:
        record, analysis = judged(name)
        chunk = PackedChunk(chunk_id="c1", position=0, text=text, content_hash=key)
        packed = PackRun(packing=Packing(chunks=(chunk,)))
        return msgspec.structs.replace(record, stages=(packed, record.stages[-1])), analysis

    texts = stored("a", "old"), stored("b", "new")
    hashes = stored("a", None, content_hash("old")), stored("b", None, content_hash("new"))
    for before, after in ((texts[0], texts[1]), (hashes[0], hashes[1]), (texts[0], hashes[1])):
        pair = question_pair(before, after)
        assert pair.prompt.rewritten == ("c1",)
        assert prompt_words(pair) == "1 chunk with another text (c1)"
    assert question_pair(texts[0], hashes[0]).prompt.rewritten == ()
    assert question_pair(texts[0], stored("b", None)).prompt.rewritten == ()


def test_texts_that_are_not_kept() -> None:
    """Without a text nothing is said of it, and nothing is compared."""
    pair = question_pair(judged("a", None), judged("b", None))
    assert (pair.candidate.answer, pair.candidate.sentence, pair.same_answer) == (None, None, None)
    assert question_pair(None, judged("b")).baseline is None


def test_a_long_text_is_cut() -> None:
    """A report stays readable, whatever an application answers."""
    pair = question_pair(judged("a"), judged("b", "x" * 100_000))
    assert len(pair.candidate.answer or "") == 2_000


def test_words_that_changed() -> None:
    """Runs of words; one usual word between changed ones is changed as well."""
    assert word_changes("a b c d", "a b c e") == [("same", "a b c"), ("removed", "d"), ("added", "e")]
    assert word_changes("x is y", "v is w") == [("removed", "x is y"), ("added", "v is w")]
    assert word_changes("same", "same") == [("same", "same")]
    assert word_changes("", "") == []


def test_a_report_has_texts_and_the_store_keeps_none(tmp_path: Path) -> None:
    """They are read again when it is shown, and are gone with their records: nothing to erase in the report."""
    url = f"sqlite:///{tmp_path}/kept.db"
    questions = [f"Is theft covered in {at}?" for at in range(COUNT)]
    before = [judged(f"a{at}", question=text, versions={"model": "1"}) for at, text in enumerate(questions)]
    secret = "Theft is never paid, says Ms Secret."
    after = [
        judged(f"b{at}", secret, question=text, broken="generation", support=0.0, versions={"model": "2"})
        for at, text in enumerate(questions)
    ]
    policy = Policy(rules=(default_rule("broken_generation"),))
    with Store.open(url) as store:
        store.write([record for record, _ in (*before, *after)])
        ids = {job.request_id: job for job in store.claim("test", limit=200)}
        store.finish([Finished(ids[analysis.request_id], analysis) for _, analysis in (*before, *after)])
        report = run("version:model=1", "version:model=2", policy=policy, store=url)
        assert report.decision == "block"
        assert {each.candidate.answer for each in report.questions} == {secret}
        save(store, report)
        assert b"Secret" not in (store.gate_report(report.run_id) or b"")
        kept = read_report(store, report.run_id)
        assert kept.questions == ()
        assert with_questions(kept, url) == report


def test_a_side_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The report stays; a warning says why texts are missing."""
    sides = [
        (judged(f"a{at}", question=f"q {at}"), judged(f"b{at}", "Never.", question=f"q {at}", coverage=0.1))
        for at in range(COUNT)
    ]
    one = written(tmp_path / "a.jsonl", *(each for each, _ in sides))
    two = written(tmp_path / "b.jsonl", *(each for _, each in sides))
    report = run(one, two, policy=Policy(rules=(default_rule("answer_coverage"),)))
    assert report.questions
    assert all(each.baseline is not None for each in report.questions)
    Path(two).unlink()
    bare = with_questions(msgspec.structs.replace(report, questions=()), None)
    assert bare.questions == ()
    assert "the texts of the candidate cannot be read" in bare.warnings[-1]
