"""Which flags buy which depth, and which requests are drawn."""

from __future__ import annotations

import pytest

from ragtrace.analyze.explainer import Depths
from ragtrace.errors import ConfigurationError
from ragtrace.types import ErrorInfo, RequestRecord, replace
from tests.analyze.examples import request


def flagged(*flags: str) -> RequestRecord:
    """A sampled request with these flags."""
    return replace(request(), flags=flags)


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ((), ()),
        (("low_coverage",), ("generator", "retriever")),
        (("contradiction", "abstention"), ("generator", "retriever")),
        (("vip",), ("generator", "retriever")),
        (("host",), ("generator", "retriever")),
        (("abstention",), ()),
        (("low_retrieval_score", "unfinished"), ()),
    ],
)
def test_the_default(flags: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """Bad coverage, contradiction, bad feedback and flags of the host buy documents and retrieval."""
    assert Depths.parse(rate=0.0).parts_of(flagged(*flags)) == parts


def test_a_table_of_ones_own() -> None:
    """Flags add up; what is not listed buys nothing."""
    depths = Depths.parse("vip=query, contradiction=generator+retriever", rate=0.0)
    assert depths.parts_of(flagged("vip", "contradiction")) == ("generator", "query", "retriever")
    assert depths.parts_of(flagged("vip")) == ("query",)
    assert depths.parts_of(flagged("other", "low_coverage")) == ()
    assert Depths.parse("none", rate=0.0).parts_of(flagged("contradiction")) == ()


def test_nothing_to_explain() -> None:
    """A request that raised, or has no answer, is neither explained for its flags nor drawn."""
    depths = Depths.parse(rate=1.0)
    assert depths.parts_of(replace(flagged("contradiction"), error=ErrorInfo(type="ValueError"))) == ()
    assert depths.parts_of(replace(request(answer=""), flags=("contradiction",))) == ()
    assert depths.parts_of(request(answer=None)) == ()


def test_the_draw_is_a_share_of_the_random_stratum() -> None:
    """Whatever the flags, always the same, and never a request that was kept only because of a flag."""
    depths = Depths.parse("none", rate=0.1)
    drawn = [depths.is_drawn(request(request_id=f"r{number}")) for number in range(2000)]
    assert 150 < sum(drawn) < 250
    assert drawn == [depths.is_drawn(replace(flagged("vip"), request_id=f"r{number}")) for number in range(2000)]
    assert Depths.parse(rate=1.0).is_drawn(request(head_sampled=False)) is False
    assert Depths.parse("none", rate=1.0).parts_of(request()) == ("generator",)


@pytest.mark.parametrize(("text", "rate"), [("vip", 0.1), ("vip=all", 0.1), ("=generator", 0.1), ("none", 1.5)])
def test_what_cannot_be_read_is_refused(text: str, rate: float) -> None:
    """The error says what is allowed."""
    with pytest.raises(ConfigurationError, match=r"explain.* is not usable; give"):
        Depths.parse(text, rate)
