"""`kill -9`: a flagged request whose submit returned is stored by the next process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import ragtrace
from ragtrace.store import Store

PROGRAM = """
import sys, ragtrace
ragtrace.configure(service="svc", store=sys.argv[1])
for number in range(int(sys.argv[2])):
    with ragtrace.request(query="q", request_id=f"r{number}", flag="keep"):
        with ragtrace.retrieve(query="q") as run:
            run.candidates([("a", "the text of a chunk", 0.5)])
    print(f"r{number}", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_no_flagged_request(tmp_path: Path) -> None:
    """Killed in the middle of its work, whatever its background thread was doing then."""
    store = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    accepted: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, store, "500"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            accepted.append(line.strip())
            if len(accepted) == 200:
                process.send_signal(signal.SIGKILL)
                break
        accepted += [line.strip() for line in process.stdout if line.endswith("\n")]
    ragtrace.configure(service="svc", store=store)
    assert ragtrace.shutdown(timeout=60)
    with Store.open(store) as opened:
        found = opened.get_records(accepted)
        assert sorted(found) == sorted(accepted)
        assert all(record.flags == ("keep",) and len(record.candidates) == 1 for record in found.values())
        assert opened.faults() == []
