"""`bench/ingest.py`: what it sends, the floor that it compares with, and the whole of it with a handful of traces."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench import ingest
from bench.sending import Load, Prose, prepare
from bench.sending.traces import HEAD
from bench.stored import LARGEST, fill, room_for
from ragtrace.receive._assembly import assemble
from ragtrace.receive._otlp import read_protobuf
from ragtrace.store import Store

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Five traces, two in a request."""
    return prepare(tmp_path / "load", 5, 2)


def bodies(load: Load) -> list[bytes]:
    """The requests of a load."""
    data, found = load.file.read_bytes(), []
    while data:
        _, size = HEAD.unpack(data[: HEAD.size])
        found.append(data[HEAD.size : HEAD.size + size])
        data = data[HEAD.size + size :]
    return found


def test_text_compresses_like_prose() -> None:
    """By as much as the passages of CLAP-NQ do, and the same seed draws the same."""
    text = Prose(3).text(30_000)
    ratio = len(text) / len(zstandard.ZstdCompressor(level=3).compress(text.encode()))
    assert 2.1 < ratio < 2.6
    assert text == Prose(3).text(30_000)
    assert len(text) == 30_000


def test_no_text_repeats() -> None:
    """Not even its beginning."""
    prose = Prose(1)
    assert len({prose.text(600)[:40] for _ in range(500)}) == 500


def test_a_trace_is_a_whole_request(load: Load) -> None:
    """It is assembled with 50 candidates, 12 of them kept and 8 packed, in about 98 kB."""
    spans = [span for body in bodies(load) for span in read_protobuf(body).spans]
    for trace_id in load.ids:
        record = assemble([span for span in spans if span.trace_id == trace_id])
        assert record is not None
        assert len([each for each in record.candidates if each.text]) == 50
        assert sum(move.rank_after is not None for move in record.moves) == 12
        assert record.packing is not None
        assert len(record.packing.chunks) == 8
    assert 95_000 < load.size / load.traces < 101_000
    assert len(bodies(load)) == 3


def test_traces_have_no_text_in_common(load: Load) -> None:
    """Each of 250 chunks has its own."""
    spans = [span for body in bodies(load) for span in read_protobuf(body).spans if span.name == "retrieve"]
    texts = [value for span in spans for name, value in span.attributes.items() if name.endswith("document.content")]
    assert len(set(texts)) == len(texts) == 250


def test_the_floor_keeps_every_attribute(load: Load, tmp_path: Path) -> None:
    """A text that several stages pass on stands once in its row, and the row gives back what was sent."""
    from bench.receivers.floor_app import TABLE, Row, packed, unpacked, writer

    body = bodies(load)[0]
    url = f"sqlite:///{tmp_path}/floor.db"
    writer(url)(packed(body))
    with sa.create_engine(url).connect() as connection:
        rows = [Row(*row) for row in connection.execute(sa.select(TABLE))]
    sent = {span.trace_id: dict[str, object]() for span in read_protobuf(body).spans}
    for span in read_protobuf(body).spans:
        sent[span.trace_id] |= span.attributes
    found = {row.trace_id: {name: value for span in unpacked(row) for name, value in span.items()} for row in rows}
    assert found == sent
    assert all(zstandard.decompress(row.body).count(_last_text(body, row.trace_id)) == 1 for row in rows)


def _last_text(body: bytes, trace_id: str) -> bytes:
    spans = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    (found,) = (span for span in spans if span.name == "retrieve" and span.trace_id.hex() == trace_id)
    texts: list[str] = [each.value.string_value for each in found.attributes if ".49.document.content" in each.key]
    return texts[0].encode()


def test_children_count() -> None:
    """What a process uses is told with what its children use, living ones included."""
    from bench.receivers.processes import used

    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    alone = next(
        int(line.split()[1]) * 1024
        for line in Path(f"/proc/{parent.pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    assert used([parent.pid]).peak > alone + 1_000_000
    parent.communicate(b"\n")


def test_a_store_is_not_filled_beyond_its_bound(tmp_path: Path) -> None:
    """Neither where the disk has no room, nor when it grows too large."""
    with pytest.raises(OSError, match="GB are free"):
        fill_nothing(tmp_path)
    with Store.open(f"sqlite:///{tmp_path}/r.db") as store, pytest.raises(OSError, match="more than"):
        fill(store, 1, lambda: LARGEST + 1)


def fill_nothing(folder: Path) -> None:
    """Ask for more room than any disk has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.stored.filling.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
        room_for(1_000, folder)


def test_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Real exporters into real servers, every trace queryable, and both reads of two stores, beside their bounds."""
    ingest.main("--traces 6 --rounds 1 --batch 2 --only ragtrace,floor,reads --reads 100 200 --read 3".split())
    said = capsys.readouterr().out
    assert re.search(r"^ragtrace sqlite +\d+ ", said, re.MULTILINE)
    assert re.search(r"^floor sqlite +\d+ ", said, re.MULTILINE)
    assert len(re.findall(r"bound: at (?:least|most) \S+: (?:not )?met", said)) == 1 + 2 * 3


@pytest.mark.usefixtures("postgres_server")  # which says why there is none
def test_all_of_it_on_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    """By COPY on either side, and both reads of a database of a server."""
    ingest.main("--traces 4 --rounds 1 --batch 2 --only ragtrace,floor,postgresql".split())
    ingest.main("--only reads --reads 100 --read 3 --rounds 1 --reads-on postgresql".split())
    said = capsys.readouterr().out
    assert re.search(r"^ragtrace postgresql +\d+ ", said, re.MULTILINE)
    assert re.search(r"^postgresql: rate, of the floor's +\d", said, re.MULTILINE)
    assert "100 requests in postgresql" in said


def test_what_is_too_little_to_measure_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A clock of hundredths of a second shows none for a handful of traces: there is no ratio to that."""
    assert ingest.ratios([1.0, 6.0], [0.0, 3.0]) == [2.0]
    ingest.judge("cpu, of the floor's", ingest.ratios([1.0], [0.0]), 0.6)
    assert capsys.readouterr().out.split() == "cpu, of the floor's too little to measure".split()


def test_unknown_parts_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that are known."""
    with pytest.raises(SystemExit):
        ingest.main(["--only", "floor,ceiling"])
    assert "ceiling; known are ragtrace, floor" in capsys.readouterr().err


def test_ratios_are_those_of_a_round() -> None:
    """The median of a ratio, and not a ratio of medians."""
    assert ingest.ratios([1.0, 6.0], [2.0, 3.0]) == [0.5, 2.0]
    assert ingest.spread([0.5, 0.7, 0.6], "{:.1f}") == "0.6 (0.5 to 0.7)"
    assert ingest.spread([0.5], "{:.1f}") == "0.5"
