"""An undecided run, and what people say of the questions that decide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.errors import InputError
from ragtrace.gate.labels import LabelTask, decide_with_labels, find_task
from ragtrace.gate.policy import OTHER
from ragtrace.gate.runs import run, save
from ragtrace.gate.types import GateReport, Policy, Rule
from ragtrace.store import Finished, RequestLabel, Store
from tests.gate.asked import judged

COUNT, LOST, WON = 150, 11, 6
"""Questions; of these the first are broken in the candidate alone, the next in the baseline alone."""
RULE = Rule(metric="broken_generation", kind="boolean", direction="lower", margin=0.07, stage="generation")


@dataclass
class Undecided:
    """A store with two versions of a service, and the run that could not decide between them."""

    url: str
    store: Store
    report: GateReport

    @property
    def task(self) -> LabelTask:
        """What there is to label."""
        return find_task(self.report, self.url)

    def said(self, requests: Iterable[str], first_broken: str = "none", labeler: str = "ann") -> None:
        """Keep labels."""
        self.store.put_labels(
            [
                RequestLabel(request_id=each, labeler=labeler, first_broken=first_broken, stages={}, labeled_at=1)
                for each in requests
            ]
        )

    def decided(self) -> GateReport:
        """The run with the labels that are there."""
        return decide_with_labels(self.task, self.task.labels(self.store), self.url)


@pytest.fixture
def undecided(tmp_path: Path) -> Iterator[Undecided]:
    """A few questions broke and a few were mended."""
    url = f"sqlite:///{tmp_path}/kept.db"
    sides = [
        judged(
            f"{side}{at:03}",
            "Up to 500 EUR." if side == "b" and at < LOST + WON else "Theft is covered up to 500 EUR.",
            question=f"Is theft covered in {at}?",
            broken="generation" if at in broken else None,
            versions={"model": side},
        )
        for side, broken in (("a", range(LOST, LOST + WON)), ("b", range(LOST)))
        for at in range(COUNT)
    ]
    with Store.open(url) as store:
        store.write([record for record, _ in sides])
        jobs = {job.request_id: job for job in store.claim("test", limit=2 * COUNT)}
        store.finish([Finished(jobs[analysis.request_id], analysis) for _, analysis in sides])
        report = run("version:model=a", "version:model=b", policy=Policy(rules=(RULE,)), store=url)
        assert report.decision == "undecided"
        yield Undecided(url, store, report)


def test_the_questions_that_decide(undecided: Undecided) -> None:
    """Those whose verdicts differ, whichever side looks better; both requests of each, not told apart."""
    task = undecided.task
    assert task.stages == ("generation",)
    assert sorted(task.pairs) == [(f"a{at:03}", f"b{at:03}") for at in range(LOST + WON)]
    requests = task.requests(5, [], "ann")
    assert sorted(requests) == sorted(each for pair in task.pairs[:5] for each in pair)
    firsts = [task.requests(at + 1, [], "ann")[2 * at][0] for at in range(LOST + WON)]
    assert 3 < firsts.count("a") < LOST + WON - 3
    undecided.said(requests[:3])
    assert task.requests(5, task.labels(undecided.store), "ann") == requests[3:]
    assert task.requests(5, task.labels(undecided.store), "bob") == requests


def test_false_alarms_decide_for_the_candidate(undecided: Undecided) -> None:
    """People call all of them sound: nothing differs any more, and what was said is in the report."""
    undecided.said(each for pair in undecided.task.pairs for each in pair)
    found = undecided.decided()
    assert (found.decision, found.paired) == ("pass", True)
    assert found.labels is not None
    assert (found.labels.of_run, found.labels.labelers) == (undecided.report.run_id, ("ann",))
    assert (found.labels.requests, found.labels.waiting, found.labels.changed) == (2 * (LOST + WON), 0, LOST + WON)
    assert "were judged by people (ann)" in found.warnings[-1]


def test_real_harm_decides_against_it(undecided: Undecided) -> None:
    """People see that the baseline was sound and the candidate is not."""
    for before, after in undecided.task.pairs:
        undecided.said([before])
        undecided.said([after], "generation")
    found = undecided.decided()
    assert (found.decision, found.first_broken) == ("block", "generation")


def test_people_who_disagree_leave_the_verdict(undecided: Undecided) -> None:
    """So does one who cannot tell, and one who found an earlier stage broken."""
    request = undecided.task.pairs[0][1]
    undecided.said([request], "none")
    undecided.said([request], "generation", "bob")
    undecided.said([undecided.task.pairs[1][1]], "cannot_tell")
    undecided.said([undecided.task.pairs[2][1]], "retrieval")
    found = undecided.decided()
    assert found.labels is not None
    [cell] = [each for each in found.cells if each.segment is None]
    assert (cell.baseline, cell.candidate) == (WON / COUNT, LOST / COUNT)
    assert found.decision == "undecided"


def test_what_no_label_decides(undecided: Undecided) -> None:
    """A run that is decided; one without labels; one of which a score is open."""
    with pytest.raises(InputError, match="nobody has labeled"):
        undecided.decided()
    undecided.said(each for pair in undecided.task.pairs for each in pair)
    with pytest.raises(InputError, match=r"is decided \(pass\)"):
        find_task(undecided.decided(), undecided.url)
    score = Rule(metric="answer_coverage", kind="score", direction="higher", margin=0.01, stage="generation")
    report = run("version:model=a", "version:model=b", policy=Policy(rules=(score,)), store=undecided.url)
    cells = tuple(msgspec.structs.replace(each, outcome="inconclusive") for each in report.cells)
    with pytest.raises(InputError, match="no label can decide"):
        find_task(msgspec.structs.replace(report, decision="undecided", cells=cells), undecided.url)


def test_small_segments_are_asked_about_together(undecided: Undecided) -> None:
    """Where they are open as one, the questions of each of them are to be labeled, and no others."""
    [cell] = [each for each in undecided.report.cells if each.segment is None]
    other = msgspec.structs.replace(cell, segment=OTHER, family="segments")
    policy = msgspec.structs.replace(undecided.report.policy, on_inconclusive_segment="block")
    report = msgspec.structs.replace(undecided.report, policy=policy, cells=(other,))
    [segment] = {record.segment for record in undecided.store.get_records(["a000", "b000"]).values()}
    small = msgspec.structs.replace(report, small=("elsewhere", segment))
    assert len(find_task(small, undecided.url).pairs) == LOST + WON
    assert find_task(msgspec.structs.replace(report, small=("elsewhere",)), undecided.url).pairs == ()


@pytest.fixture
def anchored(undecided: Undecided) -> Undecided:
    """The same run, held against a version of old as well in which nothing was broken."""
    old = [
        judged(f"c{at:03}", "Theft is covered up to 500 EUR.", question=f"Is theft covered in {at}?",
               versions={"model": "c"})
        for at in range(COUNT)
    ]  # fmt: skip
    undecided.store.write([record for record, _ in old])
    jobs = {job.request_id: job for job in undecided.store.claim("test", limit=COUNT)}
    undecided.store.finish([Finished(jobs[analysis.request_id], analysis) for _, analysis in old])
    found = run(
        "version:model=a", "version:model=b", anchor="version:model=c", policy=undecided.report.policy,
        store=undecided.url,
    )  # fmt: skip
    assert found.anchor is not None
    assert (found.decision, [cell.candidate for cell in found.anchor.worse]) == ("undecided", [LOST / COUNT])
    undecided.report = found
    return undecided


def test_labels_count_against_an_anchor(anchored: Undecided) -> None:
    """What people call sound was not lost since the anchor either."""
    anchored.said(each for pair in anchored.task.pairs for each in pair)
    found = anchored.decided()
    assert found.anchor is not None
    assert (found.decision, found.anchor.anchor.name, found.anchor.worse) == ("pass", "version:model=c", ())
    assert found.labels is not None


def test_a_loss_since_an_anchor_blocks_with_labels(anchored: Undecided) -> None:
    """People find both sides broken: nothing was lost since the baseline, and as much as before since the anchor."""
    assert anchored.report.anchor is not None
    blocking = msgspec.structs.replace(anchored.report.anchor, blocks=True)
    lost = [(one, two) for one, two in anchored.task.pairs if int(one[1:]) < LOST]
    anchored.said((each for pair in lost for each in pair), "generation")
    assert anchored.decided().decision == "pass"
    anchored.report = msgspec.structs.replace(anchored.report, anchor=blocking)
    found = anchored.decided()
    assert (found.decision, found.first_broken) == ("block", "generation")
    assert "since the anchor" in found.headline


def test_a_conversation_decides(undecided: Undecided) -> None:
    """Both requests of each question are shown without their side; what is answered is kept and decides: here that
    all is well. The new run stands beside the old one."""
    save(undecided.store, undecided.report)
    answers = "1\n\n\ns\n\n" * (2 * (LOST + WON))  # the first chunk is needed; as follows; generation; no note
    words = ["gate", "label", undecided.report.run_id[:8], "--labeler", "ann", "--store", undecided.url]
    done = CliRunner().invoke(app, words, input=answers)
    assert done.exit_code == 0, done.output
    assert f"1 of {2 * (LOST + WON)}, labeler ann" in done.output
    assert "version:model" not in done.output.partition("Passed")[0]
    assert [each.decision for each in undecided.store.gate_runs()] == ["pass", "undecided"]
    again = CliRunner().invoke(app, [*words, "--no-ask", "--json"])
    assert msgspec.json.decode(again.stdout, type=GateReport).decision == "pass"
