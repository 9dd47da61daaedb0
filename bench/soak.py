"""What a host holds while it records for minutes: memory, file descriptors, what waits, at a steady rate.

Requests of `bench/overhead.py` are recorded at the given rate; those that a busy machine made late follow at once.
Every 30 seconds a line says what the process holds. Memory is flat where the second half of the lines shows no slope:
the last column is least squares over these, in KiB for each 1,000 requests.

Usage: python bench/soak.py [--rate N] [--seconds N] [--subject "ragtrace record only"]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench import subjects
from bench.overhead import resident

RATE, SECONDS, EVERY = 200, 600, 30


def descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def slope(points: list[tuple[int, int]]) -> float:
    """KiB for each 1,000 requests, least squares of (requests, bytes)."""
    middle = sum(done for done, _ in points) / len(points)
    spread = sum((done - middle) ** 2 for done, _ in points)
    return sum((done - middle) * held for done, held in points) / spread * 1000 / 1024 if spread else 0.0


def options() -> argparse.Namespace:
    """The command line."""
    makers = {"ragtrace": subjects.with_spans, "ragtrace record only": subjects.record_only}
    makers["ragtrace not sampled"] = subjects.unsampled
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=int, default=RATE, help="requests a second")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--subject", choices=list(makers), default="ragtrace record only")
    parser.add_argument("--build", choices=["host", "worker"], default="host", help="who builds the records")
    given = parser.parse_args()
    given.make = makers[given.subject]
    return given


def main() -> None:
    """Print a line every 30 seconds."""
    given = options()
    work = subjects.Work(50, 64)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        subject = given.make(work, Path(name), given.build)
        subject.begin()
        began, spent = time.monotonic(), time.process_time()
        done, shown, points = 0, 0, []
        print(f"{'seconds':>8}{'requests':>10}{'MiB':>8}{'descriptors':>13}{'cpu ms each':>13}{'KiB/1000':>10}")
        while (now := time.monotonic() - began) < given.seconds:
            subject.run(work.hits())
            done += 1
            time.sleep(max(0.0, began + done / given.rate - time.monotonic()))
            if now // EVERY > shown:
                shown = int(now // EVERY)
                points.append((done, resident()))
                recent = points[len(points) // 2 :]
                held, each = points[-1][1] / 2**20, (time.process_time() - spent) / done * 1000
                print(f"{now:8.0f}{done:10}{held:8.1f}{descriptors():13}{each:13.2f}{slope(recent):10.1f}", flush=True)
        subject.flush()
        subject.close()


if __name__ == "__main__":
    main()
