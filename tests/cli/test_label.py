"""`ragtrace label`: draw, ask, import, export, agreement and rates, as people see them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.store import RequestLabel, Store
from tests.triage.labeled import fill, label, record

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SINCE = ("--since", "2023-11-14T00:00Z", "--until", "2023-11-15T12:00Z")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with 150 analyzed requests."""
    found = f"sqlite:///{tmp_path / 'labels.db'}"
    with Store.open(found) as store:
        fill(store, [record(number) for number in range(150)])
    return found


def _draw(cli: Cli, url: str, labels: int) -> str:
    drawn = cli("label", "draw", "--service", "shop", *SINCE, "--labels", str(labels), "--store", url, "--json")
    found: str = json.loads(drawn.stdout)["drawing"]["drawing_id"]
    return found


def test_draw_and_list(cli: Cli, url: str) -> None:
    """What was drawn, by how sure the verdict is, and the next step; the list counts who labeled how many."""
    assert cli("label", "list", "--store", url).stdout.startswith("nothing is drawn yet")
    drawn = cli("label", "draw", "--service", "shop", *SINCE, "--labels", "40", "--store", url).stdout.splitlines()
    assert drawn[0].endswith(": 40 requests of shop")
    assert drawn[1] == "from 150 judged ones of the random sample with the versions model=m-1"
    assert "in which it suspects one" in "".join(drawn)
    assert drawn[-1].startswith("next: ragtrace label ask --drawing ")
    more = cli("label", "extend", "60", "--store", url).stdout
    assert "60 requests of shop" in more
    with Store.open(url) as store:
        (drawing,) = store.drawings()
        store.put_labels([label(each.request_id) for each in store.drawn_requests(drawing.drawing_id)[:3]])
    rows = cli("label", "list", "--store", url).stdout.splitlines()
    assert rows[1].split()[-3:] == ["60", "ada", "(3)"]
    refused = cli("label", "draw", "--service", "shop", *SINCE, "--version", "m-1", "--store", url)
    assert refused.returncode == 2
    assert "COMPONENT=VERSION" in refused.stderr


def test_what_a_drawing_leaves_out_is_said(cli: Cli, url: str) -> None:
    """Requests of another release: how many, by what they differ, and how to draw from them."""
    with Store.open(url) as store:
        fill(store, [record(200 + number, versions={"model": "m-2"}) for number in range(30)])
    shown = cli("label", "draw", "--service", "shop", *SINCE, "--labels", "40", "--store", url).stdout
    assert "   30 others of the window are left out: they have model=m-2\n" in shown
    assert "--version COMPONENT=VERSION draws from those that have it" in shown
    other = ("--version", "model=m-2")
    shown = cli("label", "draw", "--service", "shop", *SINCE, "--labels", "20", *other, "--store", url).stdout
    assert "  150 others of the window are left out: they have model=m-1\n" in shown


def test_a_window_is_read_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is drawn, and for what is left out."""
    reads: list[object] = []
    measured = Store.measured

    def counted(*given: Any) -> Any:
        reads.append(given)
        return measured(*given)

    monkeypatch.setattr(Store, "measured", counted)
    for command in (("draw", "--service", "shop", *SINCE, "--labels", "40"), ("extend", "60")):
        reads.clear()
        done = CliRunner().invoke(app, ["label", *command, "--store", url])
        assert done.exit_code == 0, done.output
        assert len(reads) == 1


def test_ask_keeps_each_answer_and_goes_on_another_day(cli: Cli, url: str) -> None:
    """Question, prompt and answer without the verdict; what follows of the needed chunks is Enter; odd input is asked
    again; next passes over, quit ends."""
    drawing = _draw(cli, url, 10)
    with Store.open(url) as store:
        order = [each.request_id for each in store.drawn_requests(drawing)]
    first = ("1 2", "", "", "x", "s", "all is there")
    second = ("m", "3", "", "", "b", "")
    third = ("0", "", "", "?", "")
    shown = _ask(url, "ada", *first, *second, *third, "n", "q")
    assert "What is the fee of case" in shown
    assert "So it is." in shown
    assert "1 other candidates: m shows them" in shown
    assert "that is no answer to the question; try again" in shown
    assert "3 of 10 labeled by ada" in shown
    for word in ("suspected", "recall failure", "healthy", "no break"):
        assert word not in shown
    with Store.open(url) as store:
        labels = {each.request_id: each for each in store.labels(labeler="ada")}
    assert list(labels) == sorted(order[:3])
    one, two, three = (labels[each] for each in order[:3])
    assert (one.first_broken, one.needed, one.note) == ("none", ("c1", "c2"), "all is there")
    assert (two.first_broken, two.needed) == ("ranking", ("c3",))
    assert (three.first_broken, three.needed) == ("retrieval", ())
    assert three.stages == {"retrieval": "broken", "ranking": "sound", "generation": "cannot_tell"}
    assert one.verdict is not None
    assert "4 of 10, labeler ada" in _ask(url, "ada", "q")
    assert "1 of 10, labeler bob" in _ask(url, "bob")


def _ask(url: str, labeler: str, *lines: str) -> str:
    arguments = ["label", "ask", "--labeler", labeler, "--store", url]
    done = CliRunner().invoke(app, arguments, input="".join(f"{line}\n" for line in lines), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_labels_go_out_and_come_in(cli: Cli, url: str, tmp_path: Path) -> None:
    """A sheet with empty rows is filled elsewhere and read again; labels of requests that were not drawn are kept, and
    said to count in no rate; unknown requests are named."""
    drawing = _draw(cli, url, 20)
    cli("label", "export", "--csv", "--todo", "--out", "sheet.csv", "--store", url)
    rows = list(csv.DictReader((tmp_path / "sheet.csv").read_text().splitlines()))
    assert len(rows) == 20
    with Store.open(url) as store:
        drawn = {each.request_id for each in store.drawn_requests(drawing)}
    other = next(f"r{number:04}" for number in range(150) if f"r{number:04}" not in drawn)
    lines = ["request_id,first_broken", *(f"{row['request_id']},none" for row in rows), f"{other},ranking", "gone,none"]
    (tmp_path / "filled.csv").write_text("\n".join(lines))
    done = json.loads(cli("label", "import", "filled.csv", "--labeler", "eva", "--store", url, "--json").stdout)
    assert done == {"labels": 21, "drawn": 20, "unknown": ["gone"]}
    said = cli("label", "import", "filled.csv", "--labeler", "eva", "--store", url).stdout
    assert "21 labels of 21 requests, of which 20 were drawn: only these count in rates" in said
    assert len(cli("label", "export", "--store", url).stdout.splitlines()) == 20
    assert len(cli("label", "export", "--all", "--store", url).stdout.splitlines()) == 21
    (tmp_path / "odd.csv").write_text("id\n1\n")
    odd = cli("label", "import", "odd.csv", "--store", url)
    assert (odd.returncode, "no column request_id" in odd.stderr) == (2, True)
    assert cli("label", "import", "missing.csv", "--store", url).returncode == 2
    assert cli("label", "export", "--todo", "--store", url).returncode == 2


def test_rates(cli: Cli, url: str) -> None:
    """With too few labels how many are lacking, then rates with intervals and what halves them; exported as gauges."""
    drawing = _draw(cli, url, 120)
    with Store.open(url) as store:
        order = [each.request_id for each in store.drawn_requests(drawing)]
        store.put_labels(map(label, order[:90]))
    few = cli("label", "rates", "--store", url).stdout
    assert "120 drawn, 90 labeled" in few
    assert "needs 10 more labels" in few
    with Store.open(url) as store:
        store.put_labels(map(label, order[90:]))
    said = cli("label", "rates", "--store", url).stdout.splitlines()
    (retrieval,) = (line for line in said if line.startswith("retrieval"))
    assert retrieval.split()[1] == "10.0%"
    assert " to " in retrieval
    found = json.loads(cli("label", "rates", "--store", url, "--json").stdout)
    correction = found["stages"][0]["correction"]
    assert correction["low"] < 0.2 < correction["high"]
    assert found["pages"] == {"right": 0, "judged": 0}


def test_agreement(cli: Cli, url: str) -> None:
    """How far two labelers agree, and that one alone cannot."""
    assert "no request has labels of two people" in cli("label", "agreement", "--store", url).stdout
    with Store.open(url) as store:
        ids = [f"r{number:04}" for number in range(20)]
        store.put_labels([*map(label, ids), *(RequestLabel(each, "bob", "none") for each in ids)])
    said = cli("label", "agreement", "--store", url).stdout
    assert "20 requests with several labels" in said
    assert "ada, bob" in said
    assert "80%" in said
    found = json.loads(cli("label", "agreement", "--store", url, "--json").stdout)
    assert found["pairs"][0]["kappa"] == 0.0
