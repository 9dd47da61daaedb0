"""Requests analyzed per second by one and by two workers, in threads, in processes and as actors of Ray.

Each works through the same store, copied anew, in a Python process of its own, in turn and in another order each round:
an analysis that was made before in the same process is much faster, since what texts say is remembered. A rate is taken
between the first and the last thing that the workers tell, so that their start is not in it; that stands beside it.
Ratios are to one worker in a thread, which is what `ragtrace analyze` does by default. Without Ray its lines are left
out.

With other work on the machine two workers are slower than they could be, so the load is printed. `ms each` is how long
an analysis took, waits for the interpreter and for a core included.

Usage: python bench/executors.py [--requests N] [--rounds N] [--only thread processes ray]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.analyze import new_requests
from ragtrace.analyze.executors import EXECUTORS, Work, executor_of
from ragtrace.analyze.worker import WorkerSettings, WorkSummary
from ragtrace.registry.instruments import ANALYSIS_COST
from ragtrace.store import Store

WORKERS = (1, 2)


class Subject(NamedTuple):
    """An executor with so many workers."""

    name: str
    workers: int


@dataclass(frozen=True)
class Round:
    """What one subject did once: requests per second, seconds until the first were done, and milliseconds of an
    analysis."""

    rate: float
    start: float
    took: float


def fill(folder: Path, requests: int) -> Path:
    """A store with so many requests that wait for their analysis."""
    file = folder / "filled.db"
    with Store.open(f"sqlite:///{file}") as store:
        store.write(new_requests(range(requests)))
        store.compact()  # it can be copied without its log
    return file


def apart(subject: Subject, filled: Path) -> Round:
    """What a subject does with a copy of a store, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(filled, folder)
        command = [sys.executable, __file__, "--one", subject.name, str(subject.workers), str(copy)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return Round(**json.loads(done.stdout.splitlines()[-1]))


def measured(subject: Subject, file: Path) -> Round:
    """Work through a store."""
    url, told, began = f"sqlite:///{file}", list[tuple[float, int]](), time.perf_counter()

    def note(summary: WorkSummary) -> None:
        told.append((time.perf_counter(), summary.done))

    work = Work(store=url, settings=WorkerSettings(batch=4))
    done = executor_of(subject.name, workers=subject.workers).run(work, on_progress=note)
    assert done.failed == 0, done
    (first, some), (last, all_of_them) = next(each for each in told if each[1]), told[-1]
    assert last > first, "too few requests for a rate"
    with Store.open(url) as store:
        took = sum(total.value for total in store.totals() if total.name == ANALYSIS_COST.name)
    return Round((all_of_them - some) / (last - first), first - began, 1_000 * took / done.done)


def show(subjects: list[Subject], rounds: dict[Subject, list[Round]]) -> None:
    """A line for each: medians over the rounds, and the range of the ratios, round by round."""
    base = rounds[subjects[0]]
    print(f"{'':14}{'requests/s':>11}{'ratio':>7}{'from':>7}{'to':>6}{'start s':>9}{'ms each':>9}")
    for subject in subjects:
        found = rounds[subject]
        ratios = [each.rate / first.rate for each, first in zip(found, base, strict=True)]
        print(f"{subject.name:10}{subject.workers:4}{median(each.rate for each in found):11.1f}", end="")
        print(f"{median(ratios):7.2f}{min(ratios):7.2f}{max(ratios):6.2f}", end="")
        print(f"{median(each.start for each in found):9.1f}{median(each.took for each in found):9.1f}")


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=EXECUTORS, default=EXECUTORS)
    parser.add_argument("--one", nargs=3, metavar=("NAME", "WORKERS", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, workers, file = given.one
        print(json.dumps(asdict(measured(Subject(name, int(workers)), Path(file)))))
        return
    chosen = [each for each in EXECUTORS if each in ("thread", *given.only)]
    if "ray" in chosen and importlib.util.find_spec("ray") is None:
        chosen.remove("ray")
        print("ray is not installed: left out")
    subjects = [Subject(name, workers) for name in chosen for workers in WORKERS]
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{given.requests} requests, {given.rounds} rounds, {os.cpu_count()} cores; load before: {load}")
    with tempfile.TemporaryDirectory() as folder:
        filled = fill(Path(folder), given.requests)
        draw, rounds = random.Random(1), {each: list[Round]() for each in subjects}
        for _ in range(given.rounds):
            for subject in draw.sample(subjects, len(subjects)):
                rounds[subject].append(apart(subject, filled))
    show(subjects, rounds)
    print(f"load after: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


if __name__ == "__main__":
    main()
