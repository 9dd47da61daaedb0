"""What the release gate had said of the release that is suspected."""

from __future__ import annotations

from typing import Final

from ragtrace.store import GateRun, Store
from ragtrace.triage.wording import clock, written

__all__ = ["gate_note"]

_SHOWN: Final = 12  # characters of a run's id
_SAID: Final = {"pass": "passed", "block": "blocked", "undecided": "could not decide"}


def gate_note(store: Store, service: str, release: str | None) -> str:
    """What the last gate run with this `component=version` decided, or since when there was none; "" without a suspect,
    and where the service has never been gated."""
    if release is None:
        return ""
    component, _, version = release.partition("=")
    judged = store.gate_runs_of(service, component, version, limit=1)
    if judged:
        return _told(judged[0], release)
    earlier = store.gate_runs_of(service, component, limit=1)
    if earlier:
        run = earlier[0]
        carried = ", ".join(f"{name}={each}" for name, each in run.versions if name == component)
        said = f"which {_SAID[run.decision]} with {carried}"
        return f"no gate since {_at(run)}, {said}: {release} was not judged{_look(run)}"
    latest = store.gate_runs(service, limit=1)
    if latest:
        run = latest[0]
        return f"no gate with {release}: the last one of {service}, at {_at(run)}, {_SAID[run.decision]}{_look(run)}"
    return ""


def _told(run: GateRun, release: str) -> str:
    stage = f" for its {run.first_broken}" if run.decision == "block" and run.first_broken else ""
    against = f", compared with {run.baseline}" if run.decision == "pass" else ""
    return f"last gate {_SAID[run.decision]} with {release} at {_at(run)}{stage}{against}{_look(run)}"


def _at(run: GateRun) -> str:
    return clock(written(run.created_at))


def _look(run: GateRun) -> str:
    return f" (ragtrace gate show {run.run_id[:_SHOWN]})"
