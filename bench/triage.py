"""How long `ragtrace triage` takes on a store of 100,000 requests, the whole command, start to end.

    python bench/triage.py [REQUESTS]

Prints the store's rows, and of each command the seconds of the process, of its walk alone, and what it found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace.store import Store
from ragtrace.triage import Window, triage_request, triage_segment

REQUESTS: Final = 100_000
_HOURS: Final = 24
_RUNS: Final = 7
_LEFT: Final = 60 * MINUTE  # the traffic ends a while ago, so that the newest request has a future


def main() -> None:
    """Fill a store, and time a request's, a segment's and a service's triage."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    with tempfile.TemporaryDirectory(prefix="ragtrace-bench-") as folder:
        path = Path(folder) / "traffic.db"
        url, end = f"sqlite:///{path}", time.time_ns() - _LEFT
        start = end - _HOURS * 60 * MINUTE
        began = time.perf_counter()
        with Store.open(url) as store:
            breaks = (Break("retrieval", 0.5, 0.9, component="index"),)
            store_traffic(store, Traffic(count, start, end, breaks, noise=0.005, candidates=10))
            filled = time.perf_counter() - began
            rows = {name: number for name, number in store.counts().items() if number}
            _walks(store, start, end)
        print(f"{path.stat().st_size / 1e6:.0f} MB in {filled:.0f} s; rows: {rows}")
        _commands(url)


def _walks(store: Store, start: int, end: int) -> None:
    window = Window.of(start + (end - start) // 2, end)
    print(f"walk of a segment: {_median(lambda: triage_segment(store, SERVICE, 'limit', window)):.3f} s")
    print(f"walk of a service: {_median(lambda: triage_segment(store, SERVICE, None, window)):.3f} s")
    broken = store.find_requests(service=SERVICE, stage="retrieval", limit=1)[0]
    record, analysis = store.get_record(broken.request_id), store.get_analysis(broken.request_id)
    assert record is not None
    print(f"walk of a request: {_median(lambda: triage_request(store, record, analysis)):.3f} s")


def _commands(url: str) -> None:
    with Store.open(url) as store:
        broken = store.find_requests(service=SERVICE, stage="retrieval", limit=1)[0].request_id
    for arguments in (
        ["segment", "limit", "--service", SERVICE, "--since", "13h"],
        ["segment", "--service", SERVICE, "--since", "13h"],
        ["request", broken],
    ):
        command = [sys.executable, "-m", "ragtrace", "triage", *arguments, "--store", url, "--json"]
        seconds, found = [], {}
        for _ in range(_RUNS):
            began = time.perf_counter()
            found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
            seconds.append(time.perf_counter() - began)
        took = f"{median(seconds):.2f} s (best {min(seconds):.2f}, worst {max(seconds):.2f})"
        print(f"ragtrace triage {' '.join(arguments)}: {took}")
        print(f"    {found['conclusion']}")


def _median(walk: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        walk()
        seconds.append(time.perf_counter() - began)
    return median(seconds)


if __name__ == "__main__":
    main()
