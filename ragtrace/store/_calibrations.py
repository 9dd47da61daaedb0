"""The calibrations of services: the lines that judge them, one in use and one in shadow for each judge, and those
of grades of retrieval.

What was fitted never changes; a state does, and the counts of what a calibration in shadow would have said. The lines
of grades are in use at once, in place of those before.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict
from types import EllipsisType
from typing import Final

import sqlalchemy as sa

from ragtrace.store.database import bigint, clean
from ragtrace.store.rows import FaultFigures, GradeLine, ServiceCalibration, ShadowCounts
from ragtrace.store.tables import calibration

__all__ = ["accept", "find", "grade_lines", "keep_grade_line", "note", "propose", "reject"]

_GRADES: Final = "grades "  # before the name of a judge of relevance, in place of the digest of what judges stages
_APART: Final = ("calibration_id", "service", "judge", "state", "created_at", "accepted_at", "shadow")


def propose(connection: sa.Connection, given: ServiceCalibration, fitted_from: str | EllipsisType | None = ...) -> bool:
    """Put a calibration into shadow, in place of another one of its service and judge. False where another one is
    active than it was fitted from."""
    active = (*_of(clean(given.service), given.judge), calibration.c.state == "active")
    query = sa.select(calibration.c.calibration_id).where(*active).with_for_update()
    if fitted_from is not ... and connection.execute(query).scalar_one_or_none() != fitted_from:
        return False
    row = {name: getattr(given, name) for name in _APART if name != "shadow"}
    fitted = {name: value for name, value in asdict(given).items() if name not in _APART}
    row |= {"service": clean(given.service), "state": "shadow", "accepted_at": None}
    row |= {"created_at": bigint(given.created_at), "fitted": json.dumps(fitted, sort_keys=True)}
    connection.execute(sa.delete(calibration).where(*_of(row["service"], given.judge), calibration.c.state == "shadow"))
    connection.execute(sa.insert(calibration).values(row))
    return True


def accept(connection: sa.Connection, calibration_id: str, at: int) -> bool:
    """Let a calibration in shadow judge, and retire the one before. False where none of this id is in shadow."""
    query = sa.select(calibration.c.service, calibration.c.judge).where(*_in_shadow(calibration_id)).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        return False
    active = (*_of(found.service, found.judge), calibration.c.state == "active")
    connection.execute(sa.update(calibration).where(*active).values(state="retired"))
    values = {"state": "active", "accepted_at": bigint(at)}
    connection.execute(sa.update(calibration).where(calibration.c.calibration_id == calibration_id).values(values))
    return True


def reject(connection: sa.Connection, calibration_id: str) -> bool:
    """Delete a calibration in shadow. False where none of this id is."""
    return connection.execute(sa.delete(calibration).where(*_in_shadow(calibration_id))).rowcount > 0


def note(connection: sa.Connection, counts: Mapping[str, ShadowCounts]) -> None:
    """Add to what calibrations in shadow would have said, by id."""
    columns = calibration.c
    for calibration_id, more in sorted(counts.items()):
        grown = {
            "shadow_requests": columns.shadow_requests + more.requests,
            "named": columns.named + more.named,
            "shadow_named": columns.shadow_named + more.shadow_named,
        }
        connection.execute(sa.update(calibration).where(*_in_shadow(calibration_id)).values(grown))


def find(connection: sa.Connection, services: Collection[str] | None = None) -> list[ServiceCalibration]:
    """The calibrations of these services, or of all, newest first."""
    query = sa.select(calibration).order_by(calibration.c.created_at.desc(), calibration.c.calibration_id)
    query = query.where(calibration.c.judge.not_like(f"{_GRADES}%"))
    if services is not None:
        query = query.where(calibration.c.service.in_(sorted(map(clean, services))))
    return [_calibration(row) for row in connection.execute(query).mappings()]


def keep_grade_line(connection: sa.Connection, line: GradeLine) -> None:
    """Grade a service by this line from now on, and retire the one of the same judge before."""
    service, judge = clean(line.service), f"{_GRADES}{clean(line.judge)}"
    active = (*_of(service, judge), calibration.c.state == "active")
    connection.execute(sa.update(calibration).where(*active).values(state="retired"))
    row = {"calibration_id": secrets.token_hex(4), "service": service, "judge": judge, "state": "active"}
    times = {"created_at": bigint(line.fitted_at), "accepted_at": bigint(line.fitted_at)}
    connection.execute(sa.insert(calibration).values(**row, **times, fitted=json.dumps(asdict(line), sort_keys=True)))


def grade_lines(connection: sa.Connection, services: Collection[str]) -> list[GradeLine]:
    """The lines in use of these services, by their judges' names."""
    query = sa.select(calibration.c.fitted).where(
        calibration.c.service.in_(sorted(map(clean, services))),
        calibration.c.judge.like(f"{_GRADES}%"),
        calibration.c.state == "active",
    )
    found = (GradeLine(**json.loads(fitted)) for fitted in connection.execute(query).scalars())
    return sorted(found, key=lambda line: (line.service, line.judge))


def _of(service: str, judge: str) -> tuple[sa.ColumnElement[bool], ...]:
    return calibration.c.service == service, calibration.c.judge == judge


def _in_shadow(calibration_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return calibration.c.calibration_id == calibration_id, calibration.c.state == "shadow"


def _calibration(row: sa.RowMapping) -> ServiceCalibration:
    fitted = json.loads(row["fitted"])
    faults = tuple(FaultFigures(**each) for each in fitted.pop("faults"))
    shadow = ShadowCounts(row["shadow_requests"], row["named"], row["shadow_named"])
    known = {name: row[name] for name in _APART if name != "shadow"}
    return ServiceCalibration(**known, **fitted, faults=faults, shadow=shadow)
