"""Loads both sides of a comparison: from stores and files, judged by the same kind of reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal

from ragtrace.errors import InputError
from ragtrace.gate import files
from ragtrace.gate.columns import Columns, ReferenceKind
from ragtrace.gate.model import Population
from ragtrace.gate.rollouts import refuse_two_rollouts
from ragtrace.gate.selection import Selection
from ragtrace.store import Measured, Store, Wanted, check
from ragtrace.store.address import Address

__all__ = ["Loaded", "load"]

_SIDES: Final = ("baseline", "candidate")
_NAMED: Final = 5
_LOOKED_AT: Final = 100  # requests of a store whose analyses are read whole


class Loaded:
    """The sides that were loaded, and the service that they are of; None where they are of several, or of none."""

    def __init__(self, populations: tuple[Population, ...], service: str | None) -> None:
        self.populations = populations
        self.service = service


def load(
    selections: Sequence[Selection],
    *,
    store: str | None,
    service: str | None,
    metrics: Sequence[str],
    reference: Literal["auto", "oracle", "proxy"] = "auto",
) -> Loaded:
    """Load one side or both. store: the URL of what a selection without a source is read from, and of the gold sets
    for files. service: of the selections that name none.

    Raises: InputError when a side is empty, holds a request twice or impossible values; StoreError.
    """
    with ExitStack() as opened:
        sides = [_Side(side, each, store, service, opened) for side, each in zip(_SIDES, selections, strict=False)]
        _refuse_the_same(sides)
        with ThreadPoolExecutor(len(sides)) as pool:  # the databases work meanwhile, outside of Python's lock
            columns = list(pool.map(lambda side: side.gathered(metrics), sides))
        _refuse_two_judges([side.judges(found) for side, found in zip(sides, columns, strict=True)])
    kind = _reference(columns, reference)
    populations = tuple(each.population(kind) for each in columns)
    for side, population in zip(_SIDES, populations, strict=False):
        if not len(population):
            raise InputError(
                f"no request of the {side} {population.name!r} can be judged: {_shown(population.excluded)}"
            )
    _refuse_shared(sides, populations)
    services = {side.service for side in sides}
    return Loaded(populations, next(iter(services)) if len(services) == 1 else None)


class _Side:
    """One side: where its requests come from."""

    def __init__(
        self, name: str, selection: Selection, store: str | None, service: str | None, opened: ExitStack
    ) -> None:
        self.name = name
        self.selection = selection
        self.service = selection.service or service
        self.url = selection.url or store
        self._store: Store | None = None
        if selection.url is not None and check(selection.url).current is None:  # opening it would make one
            raise InputError(f"the {name} {selection.text!r} is no store of ragtrace yet; look for a slip in its URL")
        if self.url is not None:
            self._store = opened.enter_context(Store.open(self.url))
        if selection.file is None:
            self.service = self.service or self._only_service()

    @property
    def origin(self) -> tuple[str, object]:
        """The file or the database, however it was written."""
        if self.selection.file is not None:
            return "file", Path(self.selection.file).resolve()
        address = Address.parse(self._opened.url)
        return "store", address.file.resolve() if address.is_sqlite else address.url

    def _only_service(self) -> str:
        names = self._opened.services()
        if len(names) == 1:
            return names[0]
        if not names:
            raise InputError(
                f"the {self.name}'s store {self._opened.url} holds no request; record some, or name another"
            )
        raise InputError(
            f"the {self.name}'s store {self._opened.url} holds requests of {', '.join(names)}; choose one by --service"
        )

    @property
    def _opened(self) -> Store:
        if self._store is None:
            raise InputError(f"the {self.name} {self.selection.text!r} names no store; give one by --store")
        return self._store

    def gathered(self, metrics: Sequence[str]) -> Columns:
        """The columns of this side. Raises: InputError where nothing is selected."""
        columns = Columns(self.name, self.selection.text, metrics)
        for found in self._measured(columns.scores):
            columns.add(found)
        if not len(columns):
            raise InputError(self._empty(columns))
        if self.selection.file is None:
            refuse_two_rollouts(self.name, self.selection, self._opened, self.service or "", columns.times)
        return columns

    def judges(self, columns: Columns) -> set[str]:
        """The models that judged the claims of answers, of a store by a sample of its requests; "" for words alone."""
        if self.selection.file is not None:
            return columns.verifiers
        ids = columns.request_ids
        return self._opened.verifiers(ids[:: max(1, len(ids) // _LOOKED_AT)])

    def _measured(self, scores: Sequence[str]) -> Iterable[Measured]:
        chosen = self.selection
        if chosen.file is not None:
            return files.measured(self.name, chosen, self._store, scores, self.service)
        wanted = Wanted(self.service or "", chosen.since, chosen.until, chosen.replay, chosen.versions)
        return self._opened.measured(wanted, scores)

    def _empty(self, columns: Columns) -> str:
        source = self.selection.file or self._opened.url
        of = f" of service {self.service}" if self.service else ""
        if not columns.excluded:
            return f"the {self.name} {self.selection.text!r} selects no request{of} in {source}; {self._hint()}"
        remedy = "; run ragtrace analyze" if set(columns.excluded) == {"not analyzed"} else ""
        told = _shown(columns.excluded)
        return f"no request of the {self.name} {self.selection.text!r}{of} can be judged: {told}{remedy}"

    def _hint(self) -> str:
        """What may have been meant."""
        names = [] if self.selection.file is not None else self._opened.replays()
        if not names:
            return "look for a slip in it"
        shown = ", ".join(f"replay:{name}" for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        return f"the store's replays are {shown}"


def _refuse_the_same(sides: Sequence[_Side]) -> None:
    """A comparison of something with itself proves nothing."""
    chosen = [(side.origin, side.service, _criteria(side)) for side in sides]
    if len(chosen) == 2 and chosen[0] == chosen[1]:
        raise InputError(
            f"baseline and candidate are both {sides[0].selection.text!r}; give two different selections, or use "
            "ragtrace gate selfcheck"
        )


def _refuse_two_judges(judges: Sequence[set[str]]) -> None:
    """A model's word on a claim and that of mere words are two scales."""
    if len(set().union(*judges)) > 1:
        told = "; ".join(
            f"{side}: " + " and ".join(sorted(name or "words alone" for name in found))
            for side, found in zip(_SIDES, judges, strict=False)
        )
        raise InputError(
            f"the claims of answers were not judged alike ({told}); replay both sides, and analyze both with the same "
            "--verifier, or with none"
        )


def _refuse_shared(sides: Sequence[_Side], populations: Sequence[Population]) -> None:
    """A request of a store stands on one side only; files of two runs may number theirs alike."""
    if len({side.origin for side in sides}) == len(sides):
        return
    shared = set(populations[0].request_ids).intersection(*(each.request_ids for each in populations[1:]))
    if shared and len(populations) == 2:
        raise InputError(
            f"{len(shared)} requests stand in the baseline and in the candidate, as {min(shared)!r} does; give "
            "selections that do not overlap"
        )


def _criteria(side: _Side) -> tuple[object, ...]:
    chosen = side.selection
    return chosen.replay, frozenset(chosen.versions), chosen.since, chosen.until


def _reference(columns: Sequence[Columns], wanted: Literal["auto", "oracle", "proxy"]) -> ReferenceKind:
    """Scores by different references are never mixed: the more frequent one counts, unless the policy names one."""
    if wanted != "auto":
        return wanted
    oracle, proxy = (sum(each.references[kind] for each in columns) for kind in ("oracle", "proxy"))
    return "oracle" if oracle >= proxy else "proxy"


def _shown(excluded: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in excluded.items()) or "none is left"
