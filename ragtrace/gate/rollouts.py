"""Refuses a version that was rolled out twice: its two times are two candidates, though they have one name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ragtrace.errors import InputError
from ragtrace.gate.selection import Selection
from ragtrace.store import Release, Store, Wanted
from ragtrace.times import written_time

__all__ = ["refuse_two_rollouts"]

_FEWEST: Final = 10  # requests on both sides of a pause, and of other versions in it
_CHANCE: Final = 1e-6  # that a canary, of which requests come now and then, pauses so long by itself


class _Pause(NamedTuple):
    """When other versions were in use alone: from the first of their requests to the last, or by the releases."""

    since: int
    until: int


def refuse_two_rollouts(side: str, selection: Selection, store: Store, service: str, times: Sequence[int]) -> None:
    """Whether the versions of a selection were in use, then not, then again. times: of its requests, nanoseconds.

    A selection with a window of its own says which of the times it means. Raises: InputError, with both windows.
    """
    if not selection.versions or selection.since is not None or selection.replay is not None:
        return
    first, last = min(times), max(times)
    known = store.releases(service)
    if not any(each.component == component and each.version != version
               for component, version in selection.versions for each in known):  # fmt: skip
        return
    pause = _recorded(selection, known, first, last) or _seen(selection, store, service, first, last)
    if pause is None:
        return
    windows = (f"{written_time(first)}..{written_time(pause.since)}", f"{written_time(pause.until)}..now")
    choices = " or ".join(f"'{selection.text}&window:{window}'" for window in windows)
    raise InputError(
        f"the {side} {selection.text!r} was in use twice, with other versions between {written_time(pause.since)} and "
        f"{written_time(pause.until)}; say which time is meant: {choices}"
    )


def _recorded(selection: Selection, known: Sequence[Release], first: int, last: int) -> _Pause | None:
    """By the releases: the version was there, another one came, and somebody recorded that the version came back."""
    for component, version in selection.versions:
        of_component = [each for each in known if each.component == component]
        back = next((each.recorded_at for each in of_component if each.version == version), None)
        if back is None:
            continue
        between = [each.at for each in of_component if each.version != version and first < each.at < back]
        if between and last >= back:
            return _Pause(min(between), back)
    return None


def _seen(selection: Selection, store: Store, service: str, first: int, last: int) -> _Pause | None:
    """By the requests: the longest time in which there was none of the selection and many of other versions, where that
    is no chance."""
    wanted = dict(selection.versions)
    of_all = store.measured(Wanted(service, first, last + 1), ())
    found = [(each.started_at, wanted.items() <= each.traits.versions.items()) for each in of_all
             if wanted.keys() <= each.traits.versions.keys()]  # fmt: skip
    places = [place for place, (_, is_own) in enumerate(found) if is_own]
    gaps = ((two - one - 1, number) for number, (one, two) in enumerate(pairwise(places)))
    others, number = max((gap for gap in gaps if _FEWEST <= gap[1] + 1 <= len(places) - _FEWEST), default=(0, 0))
    if others < _FEWEST:
        return None
    before, after = places[number], places[number + 1]
    share = min(_share(is_own for _, is_own in found[: before + 1]), _share(is_own for _, is_own in found[after:]))
    if len(places) * (1 - share) ** others > _CHANCE:
        return None
    return _Pause(found[before + 1][0], found[after - 1][0])


def _share(own: Iterable[bool]) -> float:
    marks = list(own)
    return sum(marks) / (len(marks) + 1)
