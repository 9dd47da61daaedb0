"""What stands on every dashboard: the variables that a person chooses, and the releases drawn on all panels."""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards.promql import RANGE, selector
from ragtrace.registry.instruments import RELEASE_TIMESTAMP, REQUESTS

__all__ = ["ANY", "KNOWN_RELEASES", "RELEASES", "TRACE_URL", "VARIABLE_QUERIES"]

ANY: Final = ".*"
"""The pattern behind the choice "All"."""

VARIABLE_QUERIES: Final = {
    "service": f"label_values({REQUESTS.name}, service)",
    "segment": f'label_values({REQUESTS.name}{{service=~"$service"}}, segment)',
}
"""Where the values of a variable come from; each may use the variables before it."""

KNOWN_RELEASES: Final = (
    f"1000 * max by (service, component, version) (last_over_time({selector(RELEASE_TIMESTAMP)}[{RANGE}]))"
)
"""Every release that was exported in the range, as its time in milliseconds, also while the exporter is away."""

RELEASES: Final = f"{KNOWN_RELEASES} >= ${{__from}}"
"""The releases of the range itself, which are the places of the annotations; `changes()` would miss the first one."""

TRACE_URL: Final = "http://localhost:16686/trace/"
"""Where a trace is shown, up to its id: Jaeger on this machine, unless a person says otherwise."""
