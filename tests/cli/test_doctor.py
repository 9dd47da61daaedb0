"""`ragtrace doctor`."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from ragtrace.cli import app
from ragtrace.collect import Spool, default_folder
from ragtrace.collect.spool import encode_entry
from ragtrace.store import CorrectedRate, Drawing, FaultFigures, Finished, Judgment, ServiceCalibration, Store
from ragtrace.triage import judge_alert
from ragtrace.types import Analysis, Diagnosis, Feedback, RequestRecord, Stage, StageFinding, StageState

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

Doctor: TypeAlias = Callable[..., Result]
_States: TypeAlias = dict[Stage, tuple[StageState, str | None]]

SOUND: _States = dict.fromkeys(("retrieval", "ranking", "generation"), ("sound", None))


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Run `ragtrace doctor ARGUMENTS` in an empty folder, in this process: torch is loaded once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGTRACE_STORE", raising=False)
    return lambda *arguments, **variables: CliRunner().invoke(
        app, ["doctor", *arguments], env={"COLUMNS": "400", **variables}
    )


def test_reports_a_healthy_store(doctor: Doctor, store_url: str) -> None:
    """Rows, queue and schema of a readable store are reported, and the exit code is 0."""
    done = doctor("--store", store_url, "--json")

    assert done.exit_code == 0, done.stderr
    store = json.loads(done.stdout)["store"]
    assert store["revision"] == store["head"]
    assert store["rows"]["request"] == 2
    assert store["queue"]["pending"] == 2
    assert store["error"] is None


def test_says_what_a_calibration_promises_and_what_labels_correct(doctor: Doctor, cli: Cli, store_url: str) -> None:
    """Without one, the command that makes one; in shadow, that it changes nothing yet; and rates by people's labels."""
    cli("analyze", "--store", store_url)
    with Store.open(store_url) as store:
        (service,) = store.services()
    assert f"ragtrace calibrate --service {service}" in doctor("--store", store_url).stdout
    now = time.time_ns()
    with Store.open(store_url) as store:
        faults = (FaultFigures("ranking", 100, 71, 2, 9), FaultFigures("generation", 100, 4, 0, 30))
        store.propose_calibration(
            ServiceCalibration(calibration_id="c1", service=service, judge="j", blamed=0.012, faults=faults)
        )
        store.draw(Drawing("d", service, now - 10**9, now, {}, "j", now, 0.5), ())
        store.save_rates("d", [CorrectedRate("any", 0.12, 0.09, 0.15, 0.1, 150)])
    told = doctor("--store", store_url).stdout
    assert "in shadow, changes nothing yet: names 38% of 200 injected losses, blames at most 1.2%" in told
    assert "generation cannot be named without a model" in told
    assert "broke first: any stage 12.0% (9.0% to 15.0%; by the verdict 10.0%, 150 labels)" in told
    with Store.open(store_url) as store:
        store.accept_calibration("c1", now)
        store.propose_calibration(
            ServiceCalibration(calibration_id="c0", service=service, judge="o", rules="coverage-0")
        )
    assert "c0 is of an earlier version's rules" in doctor("--store", store_url).stdout
    with Store.open(store_url) as store:
        store.reject_calibration("c0")
    (found,) = json.loads(doctor("--store", store_url, "--json").stdout)["store"]["services"]
    assert [(each["id"], each["state"]) for each in found["calibrations"]] == [("c1", "active")]
    assert found["corrected"][0]["labels"] == 150


def test_says_what_waits_for_models(doctor: Doctor, cli: Cli, store_url: str) -> None:
    """Counted apart from the queue, with the command that explains; nothing is said where there is none."""
    assert "explanations" not in doctor("--store", store_url).stdout
    cli("analyze", "--store", store_url, "--explain-rate", "1")

    reported = json.loads(doctor("--store", store_url, "--json").stdout)["store"]
    assert (reported["queue"]["pending"], reported["explanations"]["pending"]) == (0, 2)
    told = doctor("--store", store_url).stdout
    assert "ragtrace analyze --generator MODEL" in told
    assert "flagged requests and a sample, for a worker that has models" in " ".join(told.split())


def test_says_what_explanations_took_today(doctor: Doctor, cli: Cli, store_url: str) -> None:
    """Beside what waits: a budget that is used up holds jobs back."""
    cli("analyze", "--store", store_url, "--explain-rate", "1")
    with Store.open(store_url) as store:
        store.spend({"cpu": 12.34})
    assert "dead 0, cpu seconds today 12.3" in doctor("--store", store_url).stdout


def test_names_what_could_not_be_coerced(doctor: Doctor, store_url: str) -> None:
    """A counted coercion miss is named with its place and its type."""
    table = doctor("--store", store_url).stdout
    (fault,) = json.loads(doctor("--store", store_url, "--json").stdout)["store"]["faults"]

    assert (fault["where"], fault["kind"]) == ("coerce.retrieve", "DataFrame")
    assert "fault coerce.retrieve" in table
    assert "DataFrame" in table


def test_counts_what_waits_in_the_spool(doctor: Doctor, store_url: str) -> None:
    """Entries that a dead process left in the spool are counted, with the folder that they are in."""
    spool = Spool.open(default_folder(store_url), store_url)
    for request_id in ("a", "b"):
        spool.durable.append(encode_entry(Feedback(request_id=request_id, score=1.0)))
    spool.close()
    reported = json.loads(doctor("--store", store_url, "--json").stdout)["store"]["spool"]

    assert reported == {"folder": str(default_folder(store_url)), "entries": 2, "handed": 0, "damaged": 0}
    assert "2 entries wait" in doctor("--store", store_url).stdout


def test_nothing_recorded_yet_is_no_error(doctor: Doctor, tmp_path: Path) -> None:
    """On a fresh machine the default store is not there: that is reported, nothing is made, the exit code is 0."""
    done = doctor("--json")

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["store"]["revision"] is None
    assert list(tmp_path.iterdir()) == []


def test_store_that_was_asked_for_must_be_there(doctor: Doctor, tmp_path: Path) -> None:
    """A store that is named and does not exist ends with 2, is reported, and is not made."""
    for done in (
        doctor("--json", "--store", "sqlite:///absent.db"),
        doctor("--json", RAGTRACE_STORE="sqlite:///absent.db"),
    ):
        assert done.exit_code == 2
        assert "absent.db" in json.loads(done.stdout)["store"]["error"]
    assert list(tmp_path.iterdir()) == []


def test_says_what_the_environment_gives(doctor: Doctor) -> None:
    """Values of settings, of secrets only that they are given, and variables that are misspelled."""
    given = {"RAGTRACE_CITES": "true", "RAGTRACE_GENERATOR_KEY": "s3cret", "RAGTRACE_SAMPEL_RATE": "0.1"}
    table, report = doctor(**given).stdout, json.loads(doctor("--json", **given).stdout)["settings"]
    assert {"name": "cites", "variable": "RAGTRACE_CITES", "value": "true"} in report["given"]
    assert {"name": "generator_key", "variable": "RAGTRACE_GENERATOR_KEY", "value": None} in report["given"]
    assert "RAGTRACE_SAMPEL_RATE" in report["unknown"]
    assert "did you mean RAGTRACE_SAMPLE_RATE?" in table
    assert "s3cret" not in table + str(report)


def test_corrupt_store_is_reported(doctor: Doctor, tmp_path: Path) -> None:
    """A file that is no database ends with 2; the rest of the report is still there."""
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    done = doctor("--json", "--store", "sqlite:///broken.db")

    assert done.exit_code == 2
    report = json.loads(done.stdout)
    assert "broken.db" in report["store"]["error"]
    assert report["python"] == platform.python_version()


def test_missing_store_is_named_in_the_table(doctor: Doctor) -> None:
    """Without `--json` the error stands in the table, and nothing is a traceback."""
    done = doctor("--store", "sqlite:///absent.db")

    assert done.exit_code == 2
    assert "absent.db" in done.stdout
    assert done.stderr == ""


def _judge(store: Store, service: str, *requests: _States, verdict: str = "no_break_found") -> None:
    """Store requests of a service with these states and reasons, a second apart."""
    start = 1_700_000_000 * 10**9
    store.write(
        [
            RequestRecord(request_id=f"{service}-{number}", service=service, started_at=start + number * 10**9)
            for number in range(len(requests))
        ]
    )
    findings = {
        f"{service}-{number}": tuple(
            StageFinding(stage=stage, state=state, reason=reason) for stage, (state, reason) in states.items()
        )
        for number, states in enumerate(requests)
    }
    store.finish(
        [
            Finished(
                job,
                Analysis(
                    request_id=job.request_id,
                    analyzer_version=job.analyzer_version,
                    diagnosis=Diagnosis(verdict=verdict, stages=findings[job.request_id], judge="j1"),
                ),
                (),
            )
            for job in store.claim("test", limit=len(requests))
        ]
    )


@pytest.fixture
def empty_url(tmp_path: Path) -> str:
    """A SQLite store without requests."""
    url = f"sqlite:///{tmp_path / 'judged.db'}"
    Store.open(url).close()
    return url


def test_says_what_can_be_judged_and_what_would_tell_more(doctor: Doctor, empty_url: str) -> None:
    """For each service and stage the share of requests by state, the most frequent reason, and the line that would
    change it; a stage of which all is known needs none."""
    with Store.open(empty_url) as store:
        _judge(
            store,
            "shop",
            SOUND | {"retrieval": ("suspected", "low_match"), "generation": ("broken", None)},
            SOUND | {"retrieval": ("not_known", "undecided"), "generation": ("not_known", "language")},
            SOUND | {"retrieval": ("not_known", "undecided")},
            SOUND,
        )
        _judge(store, "desk", SOUND)
    shop, desk = (
        next(each for each in json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["services"]
             if each["service"] == name)
        for name in ("shop", "desk")
    )  # fmt: skip
    retrieval = shop["stages"]["retrieval"]
    assert (retrieval["sound"], retrieval["broken"]) == (0.25, 0.0)
    assert (retrieval["suspected"], retrieval["not_known"]) == (0.25, 0.5)
    assert retrieval["reason"] == "undecided"
    assert "ragtrace.request(facets=...)" in retrieval["remedy"]
    assert "ragtrace gold import FILE" in retrieval["remedy"]
    assert shop["stages"]["ranking"] == {
        "requests": 4, "sound": 1.0, "broken": 0.0, "suspected": 0.0, "not_known": 0.0, "reason": None, "remedy": None,
    }  # fmt: skip
    assert shop["stages"]["generation"]["remedy"] is None  # no setting makes other languages judged
    assert (desk["requests"], set(desk["stages"])) == (1, set(SOUND))
    lines = {line.split("  ")[0]: line for line in doctor("--store", empty_url).stdout.splitlines()}
    told = "sound 25%, suspected 25%, not known 50% (mostly no proof either way) of 4 requests"
    assert told in lines["shop retrieval"]
    assert "ragtrace gold import FILE" in lines["shop retrieval"]
    told = "sound 50%, broken 25%, not known 25% (mostly data, or a language other than English) of 4 requests"
    assert told in lines["shop generation"]


@pytest.mark.parametrize(
    ("stage", "reason", "line"),
    [
        ("retrieval", "facet_not_found", "ragtrace gold import FILE"),
        ("retrieval", "not_recorded", '@ragtrace.retrieve'),
        ("ranking", "not_recorded", 'capture_content="full"'),
        ("ranking", "low_match", "ragtrace.request(facets=...)"),
        ("generation", "unsupported", "ragtrace analyze --judge entails=MODEL"),
        ("generation", "undecided", "docs/how-to/judges.md"),
        ("generation", "refused", "ragtrace gold import FILE"),
        ("citation", "unsupported", "ragtrace analyze --judge entails=MODEL"),
    ],
)  # fmt: skip
def test_each_reason_has_the_line_that_changes_it(
    doctor: Doctor, empty_url: str, stage: Stage, reason: str, line: str
) -> None:
    """Facets, gold, content capture or a verifier, by what lacks."""
    with Store.open(empty_url) as store:
        _judge(store, "shop", SOUND | {stage: ("not_known", reason)})
    (service,) = json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["services"]
    assert line in service["stages"][stage]["remedy"]


def test_a_verifier_judges_requests_that_were_analyzed(doctor: Doctor, empty_url: str) -> None:
    """Without --again the command would find nothing to do."""
    with Store.open(empty_url) as store:
        _judge(store, "shop", SOUND | {"generation": ("suspected", "unsupported")})
    (service,) = json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["services"]
    assert "--again judges those that were analyzed" in service["stages"]["generation"]["remedy"]


def test_says_how_often_pages_were_right(doctor: Doctor, empty_url: str) -> None:
    """Of all services, as on-call said; nothing where nobody has said anything."""
    assert json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["pages"] is None
    answers: tuple[Judgment, ...] = ("right", "right", "false", "wrong_stage")
    with Store.open(empty_url) as store:
        for number, answer in enumerate(answers):
            judge_alert(store, answer, service=f"s{number}", segment="", stage="ranking")
    report = json.loads(doctor("--store", empty_url, "--json").stdout)
    assert report["store"]["pages"] == {"right": 2, "wrong_stage": 1, "false": 1, "precision": 0.5}
    assert "2 of 4 judged pages were right (50 %)" in doctor("--store", empty_url).stdout


def test_says_whether_citations_are_judged(doctor: Doctor, empty_url: str) -> None:
    """A service that never cited is not judged by them; one that did counts as citing, and since when; one whose
    application says so is judged whatever it did. Each line names what changes it."""
    with Store.open(empty_url) as store:
        for service in ("quiet", "citing", "stray"):
            _judge(store, service, SOUND)
        _judge(store, "meant", SOUND | {"citation": ("broken", None)})
        store.note_answers({"quiet": (30, 0), "citing": (30, 30), "stray": (40, 1)})
        since = store.citing(["citing"])["citing"].since
    lines = {line.split("  ")[0]: line for line in doctor("--store", empty_url).stdout.splitlines()}
    assert "answers of quiet never cited, so citations are not judged" in lines["quiet citations"]
    assert "ragtrace.configure(cites=True) judges them" in lines["quiet citations"]
    assert "hardly cited (1 of its last 40 answers cite), so citations are not judged" in lines["stray citations"]
    assert "citing counts as citing since 20" in lines["citing citations"]
    assert "its last requests are not judged by citations" in lines["citing citations"]
    assert "ragtrace.configure(cites=False) ends that" in lines["citing citations"]
    assert "judged, as the application says" in lines["meant citations"]
    services = json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["services"]
    by_name = {each["service"]: each["citing"] for each in services}
    assert by_name["citing"] == {"judged": False, "answers": 30, "cited": 30, "since": since}


def test_names_requests_that_an_earlier_version_judged(doctor: Doctor, empty_url: str) -> None:
    """They have no states, are in no share, and can be judged again."""
    with Store.open(empty_url) as store:
        _judge(store, "shop", {}, {})
        with store._database.write() as connection:
            connection.exec_driver_sql("UPDATE diagnosis SET judge = NULL")
    table = doctor("--store", empty_url).stdout
    assert "2 requests were judged by an earlier version" in table
    assert "ragtrace analyze --redo" in table
    (service,) = json.loads(doctor("--store", empty_url, "--json").stdout)["store"]["services"]
    assert (service["requests"], service["stages"]) == (0, {})


def test_what_needs_care_stands_first_and_extras_take_a_line(doctor: Doctor, store_url: str) -> None:
    """The store, its queue and its services come before what is installed, of which each part has a line if asked."""
    told = doctor("--store", store_url, RAGTRACE_STOER="x")
    lines = told.stdout.splitlines()[1:]
    names = [line.split("  ")[0] for line in lines]
    assert names[:2] == ["ragtrace", "python"]
    assert names.index("RAGTRACE_STOER") < names.index("store") < names.index("rows") < names.index("queue")
    assert names.index("queue") < names.index("torch device") < names.index("extras")
    assert [name for name in names if name.startswith("extra")] in (["extras"], ["extras", "extras missing"])
    assert len([name for name in names if name.startswith("extra ")]) == 0
    assert "lease 0" not in told.stdout
    whole = doctor("--store", store_url, "--verbose").stdout
    report = json.loads(doctor("--store", store_url, "--json").stdout)
    assert all(f"extra {extra['name']} " in whole for extra in report["extras"])
    assert "lease 0" in whole
    lacking = [extra["name"] for extra in report["extras"] if not extra["installed"]]
    assert ("extras missing" in names) is bool(lacking)
    assert all(name in told.stdout for name in lacking)
