"""What `ragtrace gate run` costs over a store: seconds, processor seconds and memory of the whole command.

python -m bench.gate_store [--requests 100000] [--store FILE]: a SQLite store of so many analyzed requests of each of
two versions, paired by question, in 8 segments, with every score of the registry.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from ragtrace.gate._metrics import METRICS, SCORES
from ragtrace.store import COVERAGE, migrate
from ragtrace.store.tables import diagnosis, release, request, score, trait
from ragtrace.types import ANALYZER_VERSION, content_hash

__all__ = ["fill"]

_START: Final = 1_700_000_000_000_000_000
_DAY: Final = 86_400_000_000_000
_SEGMENTS: Final = 8
_STATES: Final = (*["sound"] * 7, "broken", "suspected", "not_known")
_BATCH: Final = 5_000
_PAYLOAD: Final = 1_500  # bytes, as of a compressed record with ten candidates


def fill(path: Path, count: int, seed: int = 1) -> None:
    """Write `count` requests of each version, without the texts and totals that a comparison does not read."""
    migrate(f"sqlite:///{path}")
    engine = sa.create_engine(f"sqlite:///{path}")
    chance = np.random.default_rng(seed)
    payload = os.urandom(_PAYLOAD)
    for side in range(2):
        version, start = f"v{side + 1}", _START + side * 30 * _DAY
        for first in range(0, count, _BATCH):
            places = range(first, min(count, first + _BATCH))
            with engine.begin() as connection:
                connection.exec_driver_sql("PRAGMA synchronous = OFF")
                for table, rows in _rows(places, version, start, payload, chance).items():
                    connection.execute(sa.insert(table), rows)
        named = {"service": "shop", "component": "reranker", "version": version, "first_seen_at": start}
        with engine.begin() as connection:
            connection.execute(sa.insert(release), named)
    engine.dispose()


def _rows(
    places: range, version: str, start: int, payload: bytes, chance: np.random.Generator
) -> dict[sa.Table, list[dict[str, Any]]]:
    rows: dict[sa.Table, list[dict[str, Any]]] = {request: [], trait: [], diagnosis: [], score: []}
    versions = json.dumps({"model": "m1", "reranker": version})
    for place in places:
        request_id, at = content_hash(f"{version} {place}"), start + place * 1_000_000_000
        broken = chance.random() < 0.1
        rows[request].append({
            "request_id": request_id, "service": "shop", "segment": f"segment {place % _SEGMENTS}", "started_at": at,
            "ended_at": at + int(chance.exponential(2e9)), "status": "ok", "flags": "[]", "head_sampled": True,
            "head_probability": 1.0, "record_revision": 0, "payload": payload,
        })  # fmt: skip
        rows[trait].append({
            "request_id": request_id, "question": content_hash(f"question {place}"), "cluster": f"session {place // 3}",
            "versions": versions, "output_tokens": int(chance.integers(50, 200)), "attempt": 1,
        })  # fmt: skip
        rows[diagnosis].append({
            "request_id": request_id, "kind": COVERAGE, "analyzer_version": ANALYZER_VERSION, "record_revision": 0,
            "started_at": at, "verdict": "recall_failure" if broken else "healthy",
            "stage": "retrieval" if broken else None, "reference": "oracle", "judge": "judge",
            "retrieval_state": "broken" if broken else "sound", "ranking_state": "sound",
            "generation_state": _STATES[chance.integers(len(_STATES))], "citation_state": "sound",
        })  # fmt: skip
        values = np.where(chance.random(len(SCORES)) < 0.7, 1.0, chance.random(len(SCORES))).tolist()
        rows[score] += [
            {"request_id": request_id, "kind": COVERAGE, "metric": metric, "reference": "none",
             "analyzer_version": ANALYZER_VERSION, "value": value}
            for metric, value in zip(SCORES, values, strict=True)
        ]  # fmt: skip
    return rows


def main() -> None:
    """Fill a store, run the command, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--store", type=Path, help="a file that is filled unless it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder) / "gate.db"
        if not path.exists():
            fill(path, options.requests)
        command = [sys.executable, "-m", "ragtrace", "gate", "run", "--no-save", "--store", f"sqlite:///{path}"]
        sides = ("--baseline", "version:reranker=v1", "--candidate", "version:reranker=v2")
        started = time.perf_counter()
        done = subprocess.run([*command, *sides], stdout=subprocess.PIPE, text=True, check=False)
        seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout.splitlines()[0])
    print(
        f"{options.requests:,} pairs, {len(METRICS)} metrics known, {_SEGMENTS} segments: {seconds:.1f} s, "
        f"{used.ru_utime + used.ru_stime:.1f} s of processor, {used.ru_maxrss / 1024:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
