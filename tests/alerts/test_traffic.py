"""Traffic in promtool's notation."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from ragtrace.alerts._traffic import Phase, gauge, judged, ramp
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


class Ends:
    """The last value of each counter of some phases."""

    def __init__(self, made: Made, *phases: Phase) -> None:
        self.values = {one["series"]: expanded(one["values"])[-1] for one in judged(made(), phases, "first")}

    def of(self, stage: str, scope: str, name: str, **labels: str) -> float:
        """That of one counter."""
        wanted = [f'stage="{stage}"', f'scope="{scope}"', *(f'{label}="{value}"' for label, value in labels.items())]
        (value,) = (
            value
            for series, value in self.values.items()
            if series.startswith(f"ragtrace_sli_{name}") and all(label in series for label in wanted)
        )
        return value


def test_later_stages_count_what_earlier_ones_left(made: Made) -> None:
    """In the conditional scope; in the scope `all` what an earlier stage broke is bad later on."""
    ends = Ends(made, Phase(2, {"retrieval": 0.5, "ranking": 0.5}, traffic=8.0))
    for stage, judged_, good in (("retrieval", 16, 8), ("ranking", 8, 4), ("generation", 4, 4)):
        assert (ends.of(stage, "conditional", "requests"), ends.of(stage, "conditional", "good")) == (judged_, good)
    assert (ends.of("generation", "all", "requests"), ends.of("generation", "all", "good")) == (16, 4)


def test_what_is_not_judged_is_counted_apart(made: Made) -> None:
    """A suspected stage keeps the request from the later ones' conditional scope, one that is not known does not."""
    ends = Ends(made, Phase(1, {"retrieval": 0.25}, 16.0, suspected={"retrieval": 0.25}, not_known={"retrieval": 0.25}))
    assert (ends.of("retrieval", "conditional", "requests"), ends.of("retrieval", "conditional", "good")) == (8, 4)
    assert ends.of("retrieval", "conditional", "unjudged", state="suspected") == 4
    assert ends.of("retrieval", "conditional", "unjudged", state="not_known") == 4
    assert ends.of("ranking", "conditional", "requests") == 8


def in_doubt(made: Made, phase: Phase, stage: str, **reasons: str) -> float:
    """In how many requests of a phase a stage is in doubt."""
    series = judged(made(), [phase], "first", reasons=reasons)
    ends = {one["series"]: expanded(one["values"])[-1] for one in series}
    (value,) = (
        value
        for written, value in ends.items()
        if written.startswith("ragtrace_sli_doubted_requests_total{") and f'stage="{stage}"' in written
    )
    return value


def test_what_is_broken_or_suspected_is_in_doubt(made: Made) -> None:
    """Of all requests, whatever an earlier stage is; and where the answer declines, generation."""
    phase = Phase(1, {"retrieval": 0.25}, 16.0, suspected={"retrieval": 0.25}, not_known={"generation": 0.5})
    assert in_doubt(made, phase, "retrieval") == 8
    assert in_doubt(made, phase, "generation") == 4
    assert in_doubt(made, phase, "generation", generation="refused") == 12
