"""Traffic in promtool's notation."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.alerts.replay import Phase, gauge, judged, ramp
from tests.alerts.conftest import Made


def expanded(values: str) -> list[float]:
    """What promtool makes of it: it adds the step again and again."""
    found: list[float] = []
    for word in values.split():
        match = re.fullmatch(r"([\d.]+)(?:\+([\d.]+))?(?:x(\d+))?", word)
        assert match is not None, word
        value = float(match[1])
        for _ in range(int(match[3] or 0) + 1):
            found.append(value)
            value += float(match[2] or 0)
    return found


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100)), min_size=1, max_size=8))
def test_a_counter_never_falls(parts: list[tuple[int, float]]) -> None:
    """It begins at 0 and has a sample for each minute and one more; a fall would be taken for a reset."""
    values = expanded(ramp(parts))
    assert values[0] == 0
    assert len(values) == 1 + sum(samples for samples, _ in parts)
    assert values == sorted(values)


def test_a_gauge_stays() -> None:
    """For as many samples as are given."""
    assert expanded(gauge([(2, 1.5), (1, 0), (3, 7)])) == [1.5, 1.5, 0, 7, 7, 7]


def test_later_stages_count_what_earlier_ones_left(made: Made) -> None:
    """In the conditional scope; in the scope `all` what an earlier stage broke is bad later on."""
    phases = [Phase(2, {"qc": 0.5, "eo": 0.5}, traffic=8.0)]
    ends = {series["series"]: expanded(series["values"])[-1] for series in judged(made(), phases, "first")}

    def end(metric: str, scope: str, name: str) -> float:
        (found,) = (
            value
            for series, value in ends.items()
            if series.startswith(f"ragtrace_sli_{name}") and f'metric="{metric}"' in series and f'"{scope}"' in series
        )
        return found

    assert (end("qc", "conditional", "requests"), end("qc", "conditional", "good")) == (16, 8)
    assert (end("eo", "conditional", "requests"), end("eo", "conditional", "good")) == (8, 4)
    assert (end("ac", "conditional", "requests"), end("ac", "conditional", "good")) == (4, 4)
    assert (end("ac", "all", "requests"), end("ac", "all", "good")) == (16, 4)
