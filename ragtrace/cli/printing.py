"""The console of all verbs: styles are ours, and nothing that the host recorded commands the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragtrace.controls import harmless

__all__ = ["HarmlessConsole"]


class HarmlessConsole(Console):
    """A console that leaves control characters out of every text; its own escapes are added behind that."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable, their texts made harmless."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(harmless(text), style)
