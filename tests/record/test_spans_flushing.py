"""The host's own flush: it waits for our spans, but not longer than it was told to."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import NoOpTracerProvider

from ragtrace.record._spans import precede


class Provider(NoOpTracerProvider):
    """As the SDK's."""

    def __init__(self) -> None:
        self.given: list[float] = []

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Keep the time."""
        self.given.append(timeout_millis)
        return True

    def shutdown(self) -> None:
        """Note it."""
        self.given.append(-1)


class Waiting:
    """Something that ends spans."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def end_spans(self, timeout: float) -> bool:
        """Keep the time."""
        self.seconds.append(timeout)
        return True


@pytest.mark.parametrize("by_name", [True, False])
def test_a_short_flush_stays_short(by_name: bool) -> None:
    """Half of it at most is ours; the provider gets no more than what is left."""
    provider, waiting = Provider(), Waiting()
    precede(provider, waiting.end_spans)
    assert provider.force_flush(timeout_millis=100) if by_name else provider.force_flush(100)
    assert 0.0 < waiting.seconds[0] <= 0.05
    assert 0 <= provider.given[0] <= 100


def test_without_a_time_it_is_ours() -> None:
    """The provider keeps its own default."""
    provider, waiting = Provider(), Waiting()
    precede(provider, waiting.end_spans)
    provider.force_flush()
    provider.shutdown()
    assert provider.given == [30000, -1]
    assert all(4.0 < seconds <= 5.0 for seconds in waiting.seconds)


def test_several_share_the_time() -> None:
    """What one has used up is not there for the next."""
    provider, first, second = Provider(), Waiting(), Waiting()
    for waiting in (first, second):
        precede(provider, waiting.end_spans)
    provider.force_flush(100)
    assert second.seconds[0] <= first.seconds[0] <= 0.05


def test_a_flush_of_another_kind_is_called_as_it_was() -> None:
    """Its arguments are its own."""

    class Other(NoOpTracerProvider):
        """Takes something else first."""

        def force_flush(self, *args: Any, **kwargs: Any) -> Any:
            """Show them."""
            return args, kwargs

    provider, waiting = Other(), Waiting()
    precede(provider, waiting.end_spans)
    assert provider.force_flush("now", deep=True) == (("now",), {"deep": True})
    assert len(waiting.seconds) == 1
