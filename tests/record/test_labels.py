"""Labels that are no plain text: members of enumerations, NumPy's texts, numbers."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any

import numpy as np
import pytest

import ragtrace
from ragtrace.collect.spool import decode_entry, encode_entry
from ragtrace.record import TakenReader
from ragtrace.types import Feedback, GenerateRun


class Mixed(str, Enum):  # noqa: UP042 - as hosts write it
    """As it is usually written."""

    MOTOR = "motor"


class Plain(Enum):
    """One that is no text."""

    MOTOR = "motor"


class New(StrEnum):
    """One of Python's own."""

    MOTOR = "motor"


LABELS: dict[str, Any] = {
    "mixed": Mixed.MOTOR,
    "plain": Plain.MOTOR,
    "text": New.MOTOR,
    "NumPy's": np.str_("motor"),
}


def written(item: Any) -> Any:
    """The item as the spool gives it back."""
    found = decode_entry(encode_entry(item)[12:], TakenReader())
    return found


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_a_label_stands_in_the_record_by_its_value(recorded: Any, label: Any) -> None:
    """Wherever the host gives it; and the record can be written."""
    with ragtrace.request(
        query="q", segment=label, query_class=label, flag=label, versions={"index": label}
    ) as request:
        request.set(tenant_id=label, attributes={"product": label})
        request.flag(label)
        with ragtrace.retrieve(query="q", source=label) as run:
            run.candidates([{"id": "a", "metadata": {"product": label}}])
        with ragtrace.generate(model=label, prompt="p") as generation:
            generation.answer("So.")
    record = written(recorded.record)
    (candidate,) = record.candidates
    assert (record.segment, record.query.query_class, record.tenant_id) == ("motor",) * 3
    assert (record.flags, record.versions["index"], record.attributes) == (("motor",), "motor", {"product": "motor"})
    assert (candidate.source, candidate.metadata) == ("motor", {"product": "motor"})
    assert recorded.run(GenerateRun).generation.model == "motor"
    assert "retrieval motor" in recorded.spans


@pytest.mark.parametrize("label", [*LABELS.values(), 5], ids=[*LABELS, "number"])
def test_feedback_of_any_label_can_be_written(recorded: Any, label: Any) -> None:
    """What the spool and the store cannot read back is lost."""
    ragtrace.feedback("r", label=label, comment=label, source=None)  # type: ignore[arg-type]
    (item,) = recorded.durable
    assert isinstance(item, Feedback)
    said = "5" if label == 5 else "motor"
    found = written(item)
    assert (found.label, found.comment, found.source) == (said, said, "user")
