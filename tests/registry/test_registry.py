"""The registry as shipped: complete, resolvable, and the generated files are what it gives."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from typing import get_args

import jsonschema
import msgspec
import pytest

from ragtrace import installation
from ragtrace.analyze import scores
from ragtrace.derive import differing
from ragtrace.registry import Instrument, Objective, StageInfo
from ragtrace.registry.instruments import (
    ATTRIBUTES,
    INSTRUMENTS,
    SLI_GOOD_REQUESTS,
    SLI_REQUESTS,
    SLI_UNJUDGED_REQUESTS,
    STAGES,
)
from ragtrace.types import Candidate, PackRun, Query, RequestRecord, RetrieveRun, Score, Stage, encode_record

SCORES = [instrument for instrument in INSTRUMENTS.values() if instrument.analysis]
COSTS = ("attribution_evaluations", "attribution_duration")


@pytest.mark.parametrize("instrument", SCORES, ids=lambda instrument: instrument.id)
def test_computed_by_resolves(instrument: Instrument) -> None:
    """Each `computed_by` names a function that exists."""
    module, _, function = (instrument.computed_by or "").partition(":")
    assert inspect.isfunction(getattr(import_module(module), function))


def test_every_function_of_a_score_is_in_the_registry() -> None:
    """No function of the scores of coverage is left without an entry, and would never be called."""
    own = inspect.getmembers(scores, lambda one: inspect.isfunction(one) and one.__module__ == scores.__name__)
    functions = {name for name, _ in own if not name.startswith("_")}
    assert functions - {"scores_of"} == {instrument.id for instrument in SCORES if instrument.analysis == "coverage"}


def test_every_score_names_its_place() -> None:
    """Each score of a request has a stage, a formula and a source, but for how exact an explanation is and its cost;
    and its id is its function's name."""
    for instrument in SCORES:
        assert instrument.stage or instrument.id in ("completeness_delta", *COSTS)
        assert (instrument.formula and instrument.source) or instrument.id in COSTS
        assert (instrument.computed_by or "").rpartition(":")[2] == instrument.id


def test_stages_are_those_of_the_record_types() -> None:
    """The four stages of the record types, in order, each with scores of its own and a share that must be sound."""
    assert tuple(stage.name for stage in STAGES) == get_args(Stage)
    assert [stage.order for stage in STAGES] == [1, 2, 3, 4]
    assert {one.stage for one in SCORES if one.stage} == {stage.name for stage in STAGES}
    assert all(0.5 < stage.target < 1 for stage in STAGES)


def test_indicators_count_the_states_of_stages() -> None:
    """What is divided has the same labels on both sides, the judge among them; what is not judged says why as well."""
    assert SLI_GOOD_REQUESTS.attributes == SLI_REQUESTS.attributes
    assert {"service", "segment", "stage", "scope", "stratum", "reference", "judge"} == set(SLI_REQUESTS.attributes)
    assert SLI_UNJUDGED_REQUESTS.attributes == (*SLI_REQUESTS.attributes, "state", "reason")


def test_only_stages_have_a_target() -> None:
    """The objective of a score is a threshold for one request; no share of requests must reach it."""
    assert Objective.__struct_fields__ == ("threshold", "direction")
    assert "target" in StageInfo.__struct_fields__


def test_labels_are_the_record_types_values() -> None:
    """Enumerated labels allow exactly what the record types allow."""
    hints = inspect.get_annotations(Score, eval_str=True)
    assert ATTRIBUTES["reference"] == get_args(hints["reference"])
    assert ATTRIBUTES["status"] == get_args(inspect.get_annotations(RequestRecord, eval_str=True)["status"])


def test_generated_files_are_up_to_date() -> None:
    """Running the generator would change no file."""
    root = installation.checkout()
    if root is None:
        pytest.skip("ragtrace runs installed; generated files are compared in a checkout")
    assert differing(root) == []


def test_host_parses_no_yaml() -> None:
    """Reading the instruments loads neither PyYAML nor the generator."""
    loaded = (
        "import sys, ragtrace.registry.instruments;"
        "print([name for name in ('yaml', 'ragtrace.registry.authored') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_record_schema_describes_written_records() -> None:
    """An encoded record is valid by the committed schema, a record without its id is not."""
    root = installation.checkout()
    if root is None:
        pytest.skip("docs/ is not part of the wheel")
    schema = msgspec.json.decode((root / "docs" / "reference" / "record.schema.json").read_bytes())
    record = RequestRecord(
        request_id="r1",
        service="shop",
        query=Query(original="what applies in 2024?"),
        stages=(RetrieveRun(name="find", candidates=(Candidate(chunk_id="c1", rank=1),)), PackRun(name="pack")),
    )
    written = msgspec.json.decode(encode_record(record))
    jsonschema.validate(written, schema)
    del written["request_id"]
    with pytest.raises(jsonschema.ValidationError, match="request_id"):
        jsonschema.validate(written, schema)
