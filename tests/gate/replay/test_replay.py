"""A replay records every question once, whatever kind of function the pipeline is, alone, and goes on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay import check_options, hold_run
from ragtrace.gate.replay_inputs import Question
from ragtrace.store import Store
from ragtrace.types import GenerateRun, PackRun, RetrieveRun
from tests.cli.conftest import environment
from tests.gate.replay.conftest import Run, lines, stored

KINDS = (
    "plain", "decorated", "asynchronous", "streaming", "streaming_later", "bound_to_its_thread",
    "with_a_loop_of_its_own", "make()", "application", "application.ask",
)  # fmt: skip
HOLDER = """
import sys
from ragtrace.gate.replay import hold_run
from ragtrace.store import Store
with Store.open(sys.argv[1]) as store, hold_run(store, "a"):
    print("held", flush=True)
    sys.stdin.read()
"""
APPLICATION = """
import os, signal
import ragtrace

@ragtrace.retrieve
def search(query):
    return [{"id": "c1", "text": "Theft is covered."}]

async def answer(question):
    return say(question)

def say(question):
    search(question)
    with open("asked", "a") as file:
        print(question, file=file)
    if question == os.environ.get("DIES_AFTER"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "Yes."
"""
NUMBER = 40


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_function_is_recorded_whole(run: Run, store_url: str, kind: str) -> None:
    """One request for each question, with all stages, the answer, the run and the question."""
    summary = run(kind, "Is theft covered?", "Is fire covered?")
    assert (summary.answered, summary.failed, summary.unstored) == (2, 0, 0)
    records = stored(store_url)
    assert [record.query.original for record in records] == ["Is theft covered?", "Is fire covered?"]
    for number, record in enumerate(records):
        assert [type(run) for run in record.stages] == [RetrieveRun, PackRun, GenerateRun]
        assert record.generation is not None
        assert record.generation.answer == "Theft of bicycles is covered up to EUR 500. [1]"
        assert record.attributes == {
            "ragtrace.replay.run": "a", "ragtrace.replay.question": f"q{number}", "ragtrace.replay.attempt": 1,
        }  # fmt: skip
        assert (record.head_sampled, record.head_probability, record.flags) == (True, 1.0, ())


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "streaming_later"])
def test_several_at_once_stay_apart(run: Run, store_url: str, applications: Any, kind: str) -> None:
    """With four workers, each request has its own question and stages."""
    texts = [f"Is theft in room {number} covered?" for number in range(20)]
    assert run(kind, *texts, concurrency=4).answered == 20
    records = stored(store_url)
    assert sorted(record.query.original for record in records) == sorted(texts)
    assert {len(record.stages) for record in records} == {3}
    assert {run.query for record in records for run in record.stages if isinstance(run, RetrieveRun)} == set(texts)


def test_what_the_file_says_of_a_question_is_recorded(run: Run, store_url: str) -> None:
    """Segment and session win over the application's own; its versions stay; the document is kept; gold is stored."""
    question = Question("q", "Is theft covered?", "exception", "s1", "d1", ("c1",))
    run("decorated", questions=[question])
    (record,) = stored(store_url)
    assert (record.segment, record.session_id, record.versions) == ("exception", "s1", {"model": "m-2"})
    assert record.attributes["ragtrace.replay.document"] == "d1"
    with Store.open(store_url) as store:
        gold = store.find_golds([("assistant", "is theft  covered?")]).get(("assistant", "is theft  covered?"))
    assert gold is not None
    assert gold.chunk_ids == ("c1",)


def test_without_a_segment_the_application_names_it(run: Run, store_url: str) -> None:
    """As in production."""
    run("decorated")
    assert stored(store_url)[0].segment == "application"


def test_the_analysis_uses_the_gold(run: Run, store_url: str) -> None:
    """Nothing waits afterwards, and the reference is the oracle."""
    summary = run("plain", questions=[Question("q", "Is theft covered?", gold=("c1",))], analyze=True)
    assert summary.unanalyzed == 0
    with Store.open(store_url) as store:
        (analyzed,) = list(store.analyses())
        assert analyzed[1].reference == "oracle"
        assert store.queue_depth()["pending"] == 0


def test_the_replays_store_wins_over_the_applications_own(run: Run, store_url: str) -> None:
    """An application that configures itself when asked, to record elsewhere and nothing, is recorded here and whole;
    its service is found out, and the gold is put where the analysis looks."""
    questions = [Question("q1", "Is theft covered?", gold=("c1",)), Question("q2", "Is fire covered?")]
    summary = run("lazy", questions=questions, service=None, analyze=True)
    assert (summary.service, summary.answered) == ("lazy", 2)
    assert [(record.service, len(record.stages)) for record in stored(store_url)] == [("lazy", 3), ("lazy", 3)]
    with Store.open(store_url) as store:
        assert {analysis.reference for row, analysis in store.analyses(service="lazy")} == {"oracle", "proxy"}
    assert run("lazy", questions=questions, service=None, again="resume").service == "lazy"


def test_it_may_configure_itself_while_several_are_asked(run: Run, store_url: str) -> None:
    """Each question is recorded once, of one service."""
    summary = run("lazy", *(f"Is theft {number} covered?" for number in range(12)), service=None, concurrency=6)
    assert (summary.service, summary.answered) == ("lazy", 12)
    assert [(record.service, len(record.stages)) for record in stored(store_url)] == [("lazy", 3)] * 12


def test_configuring_each_time_is_refused(run: Run) -> None:
    """It would lose what was recorded before."""
    with pytest.raises(ConfigurationError, match=r"calls ragtrace.configure\(\) each time"):
        run("restless", service=None)


@pytest.mark.parametrize("mode", ["off", "hash", "redacted"])
def test_capture_policies_keep_what_pairs_requests(
    run: Run, store_url: str, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Also where an application keeps no attribute, and where a question's id looks like an address."""
    monkeypatch.setenv("RAGTRACE_CAPTURE_CONTENT", mode)
    summary = run("plain", questions=[Question("jane@example.com", "Is the bicycle of joe@example.com covered?")])
    assert summary.hidden == (() if mode == "redacted" else ("query", "chunks", "answer"))
    (record,) = stored(store_url)
    assert record.attributes["ragtrace.replay.question"] == "jane@example.com"
    assert "joe@example.com" not in record.query.original


def test_a_failure_is_asked_again(run: Run, store_url: str) -> None:
    """The failed attempt is an error request of its own, the last attempt counts."""
    summary = run("flaky", "Is theft covered?", "Is fire covered?")
    assert (summary.answered, summary.failed, summary.repeated) == (2, 0, 2)
    records = stored(store_url)
    said = [(record.attributes["ragtrace.replay.attempt"], record.status) for record in records]
    assert said == [(1, "error"), (2, "ok")] * 2
    assert records[0].error is not None
    assert records[0].error.type == "ConnectionError"


def test_what_fails_to_the_end_is_recorded_and_counted(
    run: Run, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an error request for each attempt; the other questions are answered."""
    monkeypatch.setenv("FAILS_AT", "Is fire covered?")
    summary = run("failing", "Is theft covered?", "Is fire covered?", retries=1)
    assert (summary.answered, summary.failed) == (1, 1)
    assert summary.failures == {"q1": "ValueError: no such table"}
    assert [record.status for record in stored(store_url)] == ["ok", "error", "error"]


def test_failed_questions_are_asked_again_on_resume(run: Run, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered is not asked again; the new attempt has the next number."""
    monkeypatch.setenv("FAILS_AT", "Is fire covered?")
    run("failing", "Is theft covered?", "Is fire covered?", retries=0)
    monkeypatch.setenv("FAILS_AT", "nothing")
    summary = run("failing", "Is theft covered?", "Is fire covered?", again="resume")
    assert (summary.skipped, summary.answered, summary.failed) == (1, 1, 0)
    said = [(record.attributes["ragtrace.replay.attempt"], record.status) for record in stored(store_url)]
    assert said == [(1, "ok"), (1, "error"), (2, "ok")]


def test_restart_asks_everything_again(run: Run, store_url: str) -> None:
    """With attempts that come after those of before."""
    run("plain")
    assert run("plain", again="restart").answered == 1
    assert [record.attributes["ragtrace.replay.attempt"] for record in stored(store_url)] == [1, 2]


def test_a_run_that_is_there_is_refused(run: Run) -> None:
    """Neither gone on with nor doubled without a word; nor another set of questions or another service mixed in."""
    run("plain", "Is theft covered?", "Is fire covered?")
    with pytest.raises(ConfigurationError, match=r"with 2 questions; go on with it \(--resume\)"):
        run("plain")
    with pytest.raises(ConfigurationError, match=r"holds 1 questions that are not in the file \(q1"):
        run("plain", "Is theft covered?", again="resume")
    with pytest.raises(ConfigurationError, match="one of service 'assistant', not of 'other'"):
        run("plain", "Is theft covered?", "Is fire covered?", again="restart", service="other")


@pytest.mark.parametrize("kind", ["hanging", "hanging_later"])
def test_a_question_that_hangs_fails(run: Run, store_url: str, kind: str) -> None:
    """In time, as an error request; the questions behind it are answered."""
    summary = run(kind, "Is theft covered?", "Does it hang?", "Is fire covered?", retries=0, timeout=0.5)
    assert summary.failures == {"q1": "TimeoutError: no answer within 0.5 s"}
    assert [record.status for record in stored(store_url)] == ["ok", "error", "ok"]


def test_a_pipeline_that_ends_the_program_fails(run: Run) -> None:
    """It ends its own question alone."""
    summary = run("ending", retries=0)
    assert summary.failures == {"q0": "RuntimeError: the pipeline ended the program (exit code 3)"}


def test_a_pipeline_that_always_fails_is_given_up(run: Run, applications: Any) -> None:
    """After five questions, not after all of them."""
    summary = run("failing", *(f"Is theft {number} covered?" for number in range(20)), retries=0)
    assert (summary.answered, summary.failed, summary.not_asked) == (0, 5, 15)
    assert applications.asked.total() == 5


def test_a_pipeline_that_records_no_stage_is_an_error(run: Run, applications: Any) -> None:
    """Said after three answers, with the remedy; for a single question too."""
    with pytest.raises(ConfigurationError, match=r"answered 3 and recorded no stage; decorate .*ragtrace.instrument"):
        run("bare", *(f"Is theft {number} covered?" for number in range(20)))
    assert applications.asked.total() == 3
    with pytest.raises(ConfigurationError, match="answered 1 and recorded no stage"):
        run("bare", name="b")


def test_a_failure_is_told_in_one_line(run: Run) -> None:
    """However long the exception's own message is."""
    (said,) = run("talkative", retries=0).failures.values()
    assert said.startswith("ValueError: no such table at line 2 ")
    assert len(said) < 400


def test_recording_is_off_afterwards(run: Run) -> None:
    """What the process records later is no replay."""
    run("plain")
    assert not ragtrace.current_request().recording
    assert ragtrace.flush()


@pytest.mark.parametrize("name", ["", "a b", "a&b", "x" * 101, "a\n"])
def test_a_name_that_no_selection_could_name_is_refused(name: str) -> None:
    """Before any work."""
    with pytest.raises(ConfigurationError, match="name"):
        check_options(name, None)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    """Before any work."""
    with pytest.raises(ConfigurationError, match="timeout"):
        check_options("a", timeout)


@pytest.fixture
def known_store(store_url: str) -> str:
    """A store that is there already."""
    Store.open(store_url).close()
    return store_url


def test_a_second_replay_of_a_name_is_refused_while_the_first_one_runs(run: Run, known_store: str) -> None:
    """Another name goes on beside it; so does the same one as soon as the first has been killed."""
    command = [sys.executable, "-c", HOLDER, known_store]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigurationError, match=r"run 'a' is being replayed into store .* by another process"):
            run("plain")
        assert run("plain", name="b").answered == 1
        os.kill(holder.pid, signal.SIGKILL)
    assert run("plain").answered == 1


def test_another_machine_is_kept_out_by_the_store(known_store: str) -> None:
    """It has no lock in common with this one; what it left behind runs out."""
    with Store.open(known_store) as store:
        assert store.acquire("replay a", "elsewhere 1 2", 600.0)
        with pytest.raises(ConfigurationError, match=r"lets go after 60 s"), hold_run(store, "a"):
            pass
        store.release("replay a", "elsewhere 1 2")
        with hold_run(store, "a"):
            assert not store.acquire("replay a", "elsewhere 1 2", 600.0)
        assert store.acquire("replay a", "elsewhere 1 2", 600.0)


def _replay(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ragtrace", "replay", "--questions", "questions.jsonl", "--name", "a",
               "--store", "sqlite:///kept.db", "--no-analyze", "--pipeline", *options]  # fmt: skip
    return subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, check=False
    )


def _prepare(folder: Path) -> list[str]:
    questions = [f"Is theft {number} covered?" for number in range(NUMBER)]
    (folder / "application.py").write_text(APPLICATION)
    rows = [{"id": f"q{number:02}", "question": text} for number, text in enumerate(questions)]
    (folder / "questions.jsonl").write_text(lines(*rows))
    return questions


@pytest.mark.parametrize("function", ["say", "answer"])
def test_no_answer_is_lost_to_a_kill(tmp_path: Path, function: str) -> None:
    """Killed at three places, one of them in the middle of a question: each question is stored once, and only those in
    whose middle the kill came were asked twice."""
    questions = _prepare(tmp_path)
    kills = (questions[7], questions[8], questions[25])
    for number, at in enumerate(kills):
        done = _replay(tmp_path, f"application:{function}", *(["--resume"] if number else []), DIES_AFTER=at)
        assert done.returncode == -signal.SIGKILL, done.stderr
    done = _replay(tmp_path, f"application:{function}", "--resume")
    assert done.returncode == 0, done.stderr
    assert f"{NUMBER} questions, {NUMBER - 25} answered, 0 failed, 25 answered before" in done.stdout
    records = stored(f"sqlite:///{tmp_path}/kept.db")
    assert [record.query.original for record in records] == questions
    assert {(record.status, len(record.stages)) for record in records} == {("ok", 1)}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert sorted(asked) == sorted([*questions, *kills])


def test_no_answer_is_lost_where_several_are_asked(tmp_path: Path) -> None:
    """The same with four at once: each question is stored once, and none but those that ran at a kill are asked
    twice."""
    questions = _prepare(tmp_path)
    kills = (questions[10], questions[27])
    options = ("application:answer", "--concurrency", "4")
    for number, at in enumerate(kills):
        done = _replay(tmp_path, *options, *(["--resume"] if number else []), DIES_AFTER=at)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert _replay(tmp_path, *options, "--resume").returncode == 0
    records = stored(f"sqlite:///{tmp_path}/kept.db")
    assert [record.query.original for record in records] == questions
    asked = (tmp_path / "asked").read_text().splitlines()
    assert set(asked) == set(questions)
    assert len(asked) <= NUMBER + 4 * len(kills)


def test_ctrl_c_stops_and_resume_goes_on(tmp_path: Path) -> None:
    """The question that runs is not recorded, those before it are."""
    questions = _prepare(tmp_path)
    kind = (tmp_path / "application.py").read_text().replace("signal.SIGKILL", "signal.SIGINT")
    (tmp_path / "application.py").write_text(kind + "    \n")
    done = _replay(tmp_path, "application:say", DIES_AFTER=questions[3])
    assert done.returncode == 130
    assert "--resume goes on with run 'a'" in done.stderr
    assert len(stored(f"sqlite:///{tmp_path}/kept.db")) == 3
    assert _replay(tmp_path, "application:say", "--resume").returncode == 0
    assert [record.query.original for record in stored(f"sqlite:///{tmp_path}/kept.db")] == questions
