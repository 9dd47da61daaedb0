"""The file of objectives: what a user may replace, what is refused, and durations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrace.alerts.settings import Duration, read_settings
from ragtrace.errors import ConfigurationError
from tests.alerts.conftest import Made, Written


def test_own_file_replaces_what_it_names(written: Written) -> None:
    """Mappings key by key, lists whole; the rest is as shipped."""
    shipped = read_settings()
    own = read_settings(written(targets={"retrieval": 0.9}, hold={"ticket": "2h"}, burn_rates={"ticket": []}))
    assert own.targets == {"retrieval": 0.9}
    assert str(own.hold.ticket) == "2h"
    assert str(own.hold.page["ranking"]) == str(shipped.hold.page["ranking"])
    assert own.burn_rates.ticket == ()
    assert len(own.burn_rates.page) == len(shipped.burn_rates.page)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": {"retrieval": 0.9}}, "own.yaml: 'target' is no setting; give one of targets, owners"),
        ({"hold": {"pages": {}}}, "own.yaml: 'hold.pages' is no setting; give one of page, ticket, keep_firing"),
        ({"targets": {"retrieval": "high"}}, r"own.yaml: Expected `float`, got `str` - at `\$.targets"),
        ({"hold": {"ticket": "soon"}}, r"duration 'soon' is not usable.*1h30m.*at `\$.hold.ticket`"),
        ({"segments": [{"tenant": "a"}]}, r"unknown field `tenant` - at `\$.segments\[0\]`"),
        ({"burn_rates": {"page": [{"short": "5m", "long": "1h", "factor": 6}]}}, "missing required field `minimum`"),
        ({"owners": None}, r"Expected `object`, got `null` - at `\$.owners`"),
    ],
)
def test_what_does_not_fit_is_refused(written: Written, settings: dict[str, Any], message: str) -> None:
    """The message names the file, the place, and what is allowed there."""
    with pytest.raises(ConfigurationError, match=message):
        read_settings(written(**settings))


@pytest.mark.parametrize("text", ["[", "- a", "3", ""])
def test_file_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    """So is one that is no YAML or no mapping, and one that is not there."""
    path = tmp_path / "own.yaml"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="give a YAML file like"):
        read_settings(path)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_time_scale_is_positive(scale: float) -> None:
    """Nothing can be divided by zero."""
    with pytest.raises(ConfigurationError, match="time scale"):
        read_settings(time_scale=scale)


RISE = {"window": "1h", "baseline": "1d", "rise": 0.1}
ONE = {"short": "5m", "long": "1h", "minimum": 3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"targets": {"qc": 0.9}}, "targets: 'qc' is not known; give one of retrieval, ranking, generation, citation"),
        ({"targets": {"retrieval": 1.0}}, "target of retrieval 1.0 is not usable; give a share above 0 and below 1"),
        ({"segments": [{"segment": "a", "targets": {"ranking": 0.0}}]}, r"segments\[0\].targets.ranking 0.0"),
        ({"segments": [{"targets": {"ranking": 0.9}}]}, "names neither a service nor a segment"),
        ({"segments": [{"segment": "a", "owners": {"packing": "x"}}]}, "'packing' is not known; give one of retrieval"),
        ({"owners": {"pack": "me"}}, "owners: 'pack' is not known; give one of retrieval, ranking"),
        ({"releases": {"required": {"qc": "6h"}}}, "releases.required: 'qc' is not known"),
        ({"receivers": {"nobody": {}}}, "receivers: 'nobody' is not known; give one of retrieval-indexing"),
        ({"receivers": {"platform": {"warning": {}}}}, "receivers.platform: 'warning' is not known; give one of page"),
        (
            {"hold": {"page": {"ranking": "2m"}}},
            "hold.page.ranking .2m. is not usable; give more than",
        ),
        ({"burn_rates": {"page": [ONE | {"factor": 18}]}}, "factor 18 .* bad ratio of 90%.*below 18"),
        ({"targets": {"citation": 0.8}}, "5m30m: factor 9 at a target of citation of 0.8 needs a bad ratio of 180%"),
        ({"burn_rates": {"page": [ONE | {"factor": 0}]}}, "give a factor above 0"),
        ({"burn_rates": {"page": [ONE | {"factor": 6, "short": "2h"}]}}, "short window '2h of 1h' is not usable"),
        ({"burn_rates": {"page": []}}, r"burn_rates.page \[\] is not usable; give at least one pair"),
        ({"burn_rates": {"ticket": []}}, r"burn_rates.ticket \[\] is not usable; give at least one pair"),
        (
            {"burn_rates": {"page": [ONE | {"factor": 6}], "ticket": [ONE | {"factor": 1.5}]}},
            "burn_rates.ticket's pair '5m of 1h' is not usable; give each pair .* only once",
        ),
        ({"burn_rates": {"page": [ONE | {"factor": 6}, ONE | {"factor": 3}]}}, "pair '5m of 1h' is not usable"),
        ({"burn_rates": {"z": -5}}, "burn_rates.z -5.0 is not usable; give a number from 0 to 5"),
        ({"burn_rates": {"z": float("nan")}}, "burn_rates.z nan is not usable"),
        ({"burn_rates": {"page": [ONE | {"factor": 6, "minimum": -3}]}}, "page.minimum -3.0 .* 1 or more"),
        ({"sources": {"volume": {"fall": 2}}}, "sources.volume.fall 2.0 is not usable; give a share above 0"),
        ({"platform": {"late_share": -1}}, "platform.late_share -1.0 is not usable; give a share"),
        ({"platform": {"sli_expected": 0}}, "platform.sli_expected 0.0 is not usable"),
        ({"growth": {"suspected": {"windows": []}}}, r"growth.suspected.windows \[\] is not usable; give at least one"),
        (
            {"growth": {"suspected": {"windows": [RISE, RISE]}}},
            "growth.suspected.windows '1h' .* each window only once",
        ),
        ({"growth": {"suspected": {"windows": [RISE | {"baseline": "90m"}]}}}, "'1h30m before 1h' .* twice as long"),
        ({"growth": {"suspected": {"windows": [RISE | {"rise": 0}]}}}, "windows.rise 0.0 is not usable; give a share"),
        ({"growth": {"suspected": {"z": -1}}}, "growth.suspected.z -1.0 is not usable"),
        ({"growth": {"suspected": {"minimum": 0}}}, "growth.suspected.minimum 0.0 is not usable"),
        ({"growth": {"suspected": {"part": 0}}}, "growth.suspected.part 0.0 is not usable; give a share above 0"),
        ({"growth": {"suspected": {"part": 1}}}, "growth.suspected.part 1.0 is not usable; give a share above 0"),
        ({"growth": {"suspected": {"sure": -1}}}, "growth.suspected.sure -1.0 is not usable; give a number from 0 to"),
        ({"growth": {"suspected": {"sure": 11}}}, "growth.suspected.sure 11.0 is not usable"),
        ({"growth": {"suspected": {"sure": float("nan")}}}, "growth.suspected.sure nan is not usable"),
        ({"platform": {"unjudged": {"share": 1}}}, "platform.unjudged.share 1.0 is not usable"),
        ({"platform": {"unjudged": {"stages": ["packing"]}}}, "platform.unjudged.stages: 'packing' is not known"),
        ({"platform": {"unjudged": {"stages": []}}}, r"platform.unjudged.stages \[\] is not usable; give at least one"),
        ({"growth": {"rank_shift": {"factor": -1}}}, "growth.rank_shift.factor -1.0 is not usable"),
        ({"owners": {"ranking": " "}}, "owners.ranking ' ' is not usable; give a text that is not empty"),
        ({"segments": [{"segment": "a", "owners": {"ranking": "{{x}}"}}]}, r"segments\[0\].owners.ranking .*has no"),
        ({"links": {"grafana": "http://{{x}}"}}, "links.grafana .* is not usable"),
    ],
)
def test_what_the_registry_does_not_know_or_could_not_fire_is_refused(
    made: Made, settings: dict[str, Any], message: str
) -> None:
    """The value, what is allowed, and the remedy."""
    with pytest.raises(ConfigurationError, match=message):
        made(**settings)


@pytest.mark.parametrize(
    ("text", "milliseconds", "name"),
    [("5m", 300_000, "5m"), ("90s", 90_000, "1m30s"), ("1h30m", 5_400_000, "1h30m"), ("1w", 604_800_000, "7d")],
)
def test_text_is_read_and_written(text: str, milliseconds: int, name: str) -> None:
    """As Prometheus does."""
    duration = Duration.parse(text)
    assert (duration.milliseconds, duration.name, str(duration)) == (milliseconds, name, name)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "0m", "5y", "1.5h", 5, None, ["5m"]])
def test_anything_else_is_refused(text: object) -> None:
    """The message says what a duration looks like."""
    with pytest.raises(ConfigurationError, match="as in 5m or 1h30m"):
        Duration.parse(text)


def test_scale_shortens_the_time_and_not_the_name() -> None:
    """Series keep their names in a replay."""
    duration = Duration.parse("1h", 60)
    assert (duration.name, str(duration), duration.seconds) == ("1h", "1m", 60.0)
    assert str(Duration.parse("30s", 60)) == "500ms"
    assert str(Duration.parse("1ms", 60)) == "1ms"  # never nothing at all


@given(st.integers(min_value=1, max_value=10**10))
def test_what_is_written_reads_as_the_same(milliseconds: int) -> None:
    """Writing and reading are inverse."""
    assert Duration.parse(str(Duration(milliseconds))).milliseconds == milliseconds
