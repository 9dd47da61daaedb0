"""`ragtrace show`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from rich.cells import cell_len

from bench.traffic import MINUTE, Traffic, store_traffic
from ragtrace import installation
from ragtrace.safe_text import UNSAFE
from ragtrace.store import Store
from ragtrace.types import Query, Stage, StageState, replace
from tests.cli.conftest import environment, recorded

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

FIRST, SECOND = "0190aaaa" + "0" * 24, "0190aabb" + "0" * 24


def test_prints_the_evidence_path(cli: Cli, store_url: str) -> None:
    """The request's question, its chunk and its verdict are on the page."""
    cli("analyze", "--store", store_url)
    done = cli("show", FIRST, "--store", store_url)

    assert done.returncode == 0, done.stderr
    assert "What is the deductible of HX-2?" in done.stdout
    assert "hx-2" in done.stdout


def test_json_holds_record_and_analysis(cli: Cli, store_url: str) -> None:
    """`--json` prints both parts; the analysis is null until a worker has been there."""
    before = json.loads(cli("show", FIRST, "--store", store_url, "--json").stdout)
    cli("analyze", "--store", store_url)
    after = json.loads(cli("show", FIRST, "--store", store_url, "--json").stdout)

    assert before["record"]["request_id"] == after["record"]["request_id"] == FIRST
    assert before["analysis"] is None
    assert before["rationales"] == []
    (claim,) = after["analysis"]["claims"]
    assert claim["supports"].keys() == {"hx-2"}
    (rationale,) = after["rationales"]
    assert rationale["chunk_id"] == "hx-2"
    assert rationale["stance"] == "supports"
    assert after["analysis"]["request_id"] == FIRST


def test_json_fits_the_documented_schema(cli: Cli, store_url: str) -> None:
    """One request before and after its analysis, and the list of them."""
    root = installation.checkout()
    assert root is not None
    schema = json.loads((root / "docs/reference/show.schema.json").read_text("utf-8"))
    printed = [cli("show", *which, "--store", store_url, "--json").stdout for which in ((FIRST,), ())]
    cli("analyze", "--store", store_url)
    printed += [cli("show", *which, "--store", store_url, "--json").stdout for which in ((FIRST,), ())]
    for text in printed:
        jsonschema.validate(json.loads(text), schema)
    changed = json.loads(printed[2])
    del changed["record"]["service"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, schema)


def test_a_recorded_text_commands_no_terminal(cli: Cli, store_url: str) -> None:
    """Escapes in a segment, a question or an id are left out, on stdout and in an error; what else is there stays."""
    hostile = replace(
        recorded("\x1b[2Jid-1"), segment="\x1b]0;title\x07motor", query=Query(original="HX-2?\x1b[31m \u202e\x9b1m保険")
    )
    with Store.open(store_url) as store:
        store.write([hostile, recorded("\x1b[2Jid-2")])
    shown = cli("show", hostile.request_id, "--store", store_url)
    ambiguous = cli("show", "\x1b[2Jid-", "--store", store_url)

    assert shown.returncode == 0, shown.stderr
    assert not UNSAFE.search(shown.stdout + ambiguous.stderr)
    assert "motor" in shown.stdout
    assert "保険" in shown.stdout
    assert ambiguous.returncode == 2


def test_unique_beginning_is_enough(cli: Cli, store_url: str) -> None:
    """As much of an id as names one request finds it."""
    done = cli("show", "0190aab", "--store", store_url, "--json")

    assert json.loads(done.stdout)["record"]["request_id"] == SECOND


def test_shared_beginning_is_refused(cli: Cli, store_url: str) -> None:
    """A beginning of two ids is an error that lists them."""
    done = cli("show", "0190aa", "--store", store_url)

    assert done.returncode == 2
    assert FIRST in done.stderr
    assert SECOND in done.stderr
    assert done.stdout == ""


def test_unknown_request_is_refused(cli: Cli, store_url: str) -> None:
    """An id that no request has is one clear line and exit code 2."""
    done = cli("show", "ffff", "--store", store_url)

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: no request 'ffff'")
    assert done.stderr.count("\n") == 1


def test_an_unknown_request_names_those_that_there_are(cli: Cli, store_url: str) -> None:
    """Ids to try, the newest first: an application's own requests are in no log."""
    done = cli("show", "ffff", "--store", store_url)

    assert SECOND in done.stderr
    assert FIRST in done.stderr


def test_a_store_without_requests(cli: Cli, tmp_path: Path) -> None:
    """It says that there are none."""
    url = f"sqlite:///{tmp_path}/none.db"
    Store.open(url).close()

    assert cli("show", "ffff", "--store", url).stderr.endswith("it holds no request\n")


def test_without_an_id(cli: Cli, store_url: str) -> None:
    """The newest requests are listed, with their verdicts once they have one."""
    before = cli("show", "--store", store_url)
    cli("analyze", "--store", store_url)
    rows = json.loads(cli("show", "--store", store_url, "--json").stdout)
    narrow = cli("show", "--store", store_url, COLUMNS="80").stdout.splitlines()
    one = cli("show", "--limit", "1", "--store", store_url).stdout.splitlines()

    assert before.stdout.count("not analyzed") == 2
    assert {row["request_id"] for row in rows} == {FIRST, SECOND}
    assert all(row["verdict"] for row in rows)
    heads = ["request", "started", "service", "segment", "verdict", "stages", "sound", "owner", "asked"]
    assert one[0].split() == heads
    assert one[1].endswith("What is the deductible of HX-2?")
    assert one[2] == "the newest 1; there are more: --limit 5 shows more of them"
    assert one.index("") == 3
    assert narrow[0].split() == ["request", "started", "verdict", "stages", "sound"]
    assert narrow[1].startswith(SECOND)
    assert narrow[2] == "  What is the deductible of HX-2?"
    assert set(rows[0]["states"]) >= {"retrieval", "ranking", "generation"}
    assert "no such requests" in cli("show", "--segment", "other", "--store", store_url).stdout


def test_a_long_question_and_long_names_are_cut_to_the_line(cli: Cli, store_url: str) -> None:
    """However wide its characters are: no line is longer than the terminal, and the id is whole."""
    odd = replace(recorded("f" * 32), segment="s" * 90, query=Query(original="保険 " * 80 + "\n\x1b[2Jend"))
    with Store.open(store_url) as store:
        store.write([odd])
    for width in (60, 80, 200):
        lines = cli("show", "--store", store_url, COLUMNS=str(width)).stdout.splitlines()
        asked = next(line for line in lines if "保険" in line)
        assert cell_len(asked) <= width
        assert asked.endswith("…")
        listed = next(line for line in lines if "f" * 32 in line)
        assert cell_len(listed) <= width


def test_a_slip_is_told_from_nothing_found(cli: Cli, store_url: str) -> None:
    """A service that has no requests, and times in the wrong order: the value, what there is, and exit code 2."""
    wrong = cli("show", "--service", "suport", "--store", store_url)
    turned = cli("show", "--since", "1h", "--until", "2h", "--store", store_url)
    assert (wrong.returncode, turned.returncode) == (2, 2)
    assert wrong.stderr == (
        "ragtrace: --service 'suport' is not usable; give a service that has requests in the store: 'support'\n"
    )
    assert turned.stderr == "ragtrace: --since '1h' is not usable; give a time before --until (2h)\n"


def test_the_list_says_how_much_can_be_judged_and_what_tells_more(cli: Cli, tmp_path: Path) -> None:
    """By stage, in words; of requests that an earlier version judged, what judges them anew."""
    url = f"sqlite:///{tmp_path}/blind.db"
    end = 1_700_000_000_000_000_000
    with Store.open(url) as store:
        unknown: dict[Stage, tuple[StageState, str]] = {"retrieval": ("not_known", "undecided")}
        store_traffic(store, Traffic(60, end - 60 * MINUTE, end, unjudged=unknown, inapplicable=("citation",)))
        store_traffic(store, Traffic(5, end - 90 * MINUTE, end - 80 * MINUTE, outdated=True))
    shown = [" ".join(line.split()) for line in cli("show", "--limit", "3", "--store", url).stdout.splitlines()]

    assert "no break found 2/3" in shown[1]
    assert "assistant: 5 requests are not judged by these rules (ragtrace analyze --redo judges anew)" in shown
    assert "retrieval 0 of 60 no proof either way" in shown
    assert "ranking 60 of 60" in shown
    assert "citation none answers that do not cite" in shown
    assert any(line.startswith("retrieval ragtrace.request(facets=...)") for line in shown)
    chosen = cli("show", "--doubt", "not_known", "--store", url).stdout
    assert "question 40" in chosen
    assert "last 60 requests" not in chosen


def test_the_list_names_what_is_suspected_within_a_hundred_columns(cli: Cli, tmp_path: Path) -> None:
    """The first suspected stage and its reason, whole."""
    url = f"sqlite:///{tmp_path}/suspected.db"
    end = 1_700_000_000_000_000_000
    with Store.open(url) as store:
        doubt: dict[Stage, tuple[StageState, str]] = {"generation": ("suspected", "unsupported")}
        store_traffic(store, Traffic(3, end - 60 * MINUTE, end, unjudged=doubt, inapplicable=("citation",)))
    told = cli("show", "--limit", "3", "--store", url, COLUMNS="100")
    assert told.stdout.count("suspected: generation, unsupported  2/3") == 3
    assert max(map(len, told.stdout.splitlines()[:7])) <= 100
    (row, *_) = json.loads(cli("show", "--store", url, "--json").stdout)
    assert row["reasons"] == {"generation": "unsupported"}


PIPELINE = """
import ragtrace

ragtrace.configure(service="assistant", store=STORE)
TEXTS = {
    "leave": "Employees may take 25 days of annual leave each year. Five unused days are kept until 31 March.",
    "sick": "If you are ill, tell your manager before 10 a.m. A doctor's note is needed from the fourth day onwards.",
    "hotel": "Trips are booked through the travel desk. Hotels are reimbursed up to 140 EUR per night.",
    "laptop": "Lost or stolen devices must be reported to IT security within 24 hours.",
}
ANSWERS = {
    "How many days of annual leave do employees get?": "Employees get 25 days of annual leave per year.",
    "When is a doctor's note needed?": "A note is needed from the fourth day.",
    "How much are hotels reimbursed?": "Hotels are reimbursed up to 140 EUR a night.",
    "By when must stolen devices be reported?": "They must be reported to IT security within 24 hours.",
}


@ragtrace.request
def ask(question: str) -> str:
    return write(question, pack(search(question)))


@ragtrace.retrieve
def search(query: str) -> list[dict]:
    return [{"id": name, "text": text} for name, text in TEXTS.items()]


@ragtrace.pack
def pack(hits: list[dict]) -> str:
    return "\\n\\n".join(hit["text"] for hit in hits)


@ragtrace.generate
def write(question: str, prompt: str) -> str:
    return ANSWERS[question]


for question in ANSWERS:
    ask(question)
ragtrace.shutdown()
"""


def test_the_first_screen_of_an_ordinary_pipeline_is_true(cli: Cli, tmp_path: Path) -> None:
    """Four candidates, no gold evidence, no citations, sound answers: nothing is blamed, least of all citations that
    were never meant, and what cannot be judged is said."""
    url = f"sqlite:///{tmp_path}/first.db"
    (tmp_path / "pipeline.py").write_text(PIPELINE.replace("STORE", repr(url)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "pipeline.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    cli("analyze", "--store", url)
    shown = cli("show", "--store", url).stdout
    rows = json.loads(cli("show", "--store", url, "--json").stdout)

    assert len(rows) == 4
    assert {row["verdict"] for row in rows} <= {"healthy", "no_break_found"}
    assert all("citation" not in row["states"] for row in rows)
    assert "failure" not in shown
    assert "citation none answers that do not cite" in " ".join(shown.split())
