"""The spool's format: what is written is read, what is damaged is found and nothing else with it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.collect.spool import MAGIC, decode_entry, encode_entries, encode_entry, read_entries
from ragtrace.errors import RecordError
from ragtrace.record import TakenReader
from ragtrace.types import (
    Addendum,
    Candidate,
    Fault,
    Feedback,
    Item,
    RequestRecord,
    RetrieveRun,
    SourceReport,
    TakenRequest,
    replace,
)

RECORD = RequestRecord(request_id="r1", service="s", schema_version=1)
ITEMS: list[Item] = [RECORD, Feedback(request_id="r1", score=0.5), Fault(service="s", where="w", kind="k")]
ADDENDUM = Addendum(
    request_id="r1",
    service="s",
    addendum_id="a",
    flags=("late",),
    stages=(RetrieveRun(candidates=(Candidate(chunk_id="c", rank=1, text="a text"),)),),
)
DATA = b"".join(encode_entry(item) for item in ITEMS)
SIZES = [len(encode_entry(item)) for item in ITEMS]


def test_what_is_written_is_read() -> None:
    """Records, feedback and faults, in order."""
    assert [entry.item for entry in read_entries(DATA)] == ITEMS


def test_an_addendum_is_read_as_it_was_written() -> None:
    """With its stage runs and their texts."""
    assert [entry.item for entry in read_entries(encode_entry(ADDENDUM) + DATA)] == [ADDENDUM, *ITEMS]


def test_a_report_on_a_source_is_read_as_it_was_written() -> None:
    """With all that it says."""
    report = SourceReport(service="s", source="wiki", reported_at=5, documents=2, newest_at=3, delay_seconds=0.5)
    assert [entry.item for entry in read_entries(encode_entry(report) + DATA)] == [report, *ITEMS]


def test_an_addendum_that_could_not_be_read_back_is_refused() -> None:
    """It would be damaged in the spool."""
    wrong = RetrieveRun(query=3)  # type: ignore[arg-type]  # as a host's value may be
    with pytest.raises(RecordError, match="addendum to 'r1'"):
        encode_entry(replace(ADDENDUM, stages=(wrong,)))


@pytest.mark.parametrize("cut", range(1, SIZES[-1]))
def test_a_torn_last_entry_is_left_out(cut: int) -> None:
    """Wherever the process died in the write, all before it is there and nothing counts as damaged."""
    assert [entry.item for entry in read_entries(DATA[:-cut])] == ITEMS[:2]


@pytest.mark.parametrize("at", range(SIZES[0], SIZES[0] + SIZES[1]))
def test_a_damaged_entry_costs_no_other(at: int) -> None:
    """Any flipped byte of the middle entry: it alone is handed out as damaged."""
    flipped = DATA[:at] + bytes([DATA[at] ^ 0xFF]) + DATA[at + 1 :]
    entries = list(read_entries(flipped))
    assert [entry.item for entry in entries] == [ITEMS[0], None, ITEMS[2]]
    assert b"".join(entry.raw for entry in entries) == flipped


@given(st.binary(max_size=300))
def test_reading_never_fails(data: bytes) -> None:
    """Whatever stands in the file, reading ends, and a whole entry behind it is found."""
    assert [entry.item for entry in read_entries(data + DATA)][-3:] == ITEMS


def test_an_entry_of_a_newer_schema_is_damaged_to_us() -> None:
    """It is kept for a newer ragtrace, not dropped."""
    body = encode_entry(RECORD).replace(b'"schema_version":1', b'"schema_version":9')[12:]
    with pytest.raises(RecordError, match="upgrade ragtrace"):
        decode_entry(body, TakenReader())


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b'{"kind":"poem","item":1}', b'{"kind":"fault","item":{}}', b'{"kind":"addendum","item":{}}'],
)
def test_what_is_no_entry_is_refused(payload: bytes) -> None:
    """With what is known."""
    with pytest.raises(RecordError):
        decode_entry(payload, TakenReader())


def test_what_json_cannot_hold_is_refused() -> None:
    """A lone surrogate, a set in the metadata."""
    with pytest.raises(RecordError):
        encode_entry(replace(RECORD, segment="\ud83d"))
    with pytest.raises(RecordError):
        encode_entry(Feedback(request_id="r", comment="\ud83d"))


@pytest.mark.parametrize("lost", range(4))
def test_a_damaged_request_of_a_batch_costs_the_others_nothing(lost: int) -> None:
    """Each that was taken has a checksum of its own, though they share their texts."""
    batch = [TakenRequest(body=b"%d" % number, texts=(f"text {number}",)) for number in range(4)]
    data = b"".join(encode_entries(batch))
    starts = [at for at in range(len(data)) if data.startswith(MAGIC, at)]
    assert len(starts) == 4
    damaged = data[: starts[lost] + 20] + b"?" + data[starts[lost] + 21 :]
    assert [entry.item for entry in read_entries(damaged)] == [
        None if number == lost else each for number, each in enumerate(batch)
    ]
