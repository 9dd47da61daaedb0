"""What recording costs a host, beside bare OpenTelemetry and other tools, interleaved in one process.

The work is a fake four-stage request that returns at once: 50 candidates of 600 characters with ids and scores, rerank
50 to 12, pack 8, an answer of 800 characters. `bare` is a root and four child spans without attributes through a batch
processor into an in-memory exporter; every figure is also given as a multiple of its median.

A block of requests is timed request by request on the caller's thread (wall and thread CPU time), then everything in
the background is flushed; CPU is that of the whole process over block and flush. Blocks are shorter than the time for
which batches gather, so that the caller's figures are those of a host that does not saturate its interpreter lock;
`--closed-loop` adds the figures of one that does.

`--all-cpu` prints one table alone: what one request costs the whole process, caller and background together, with the
commit of the store, and with texts that repeat over 64 questions.

Usage: python bench/overhead.py [--rounds N] [--block N] [--memory N] [--closed-loop] [--no-peers] [--only NAME ...]
       python bench/overhead.py --all-cpu [--rounds N] [--block N] [--no-peers] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import logging
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench import subjects

ROUNDS, BLOCK, MEMORY = 12, 100, 20_000
ALL_ROUNDS, ALL_BLOCK, QUESTIONS = 14, 200, 64
SIZES = (10, 50, 100, 200)  # candidates, for the slope
BOUNDS = {"ragtrace": 4.0, "ragtrace record only": 2.5, "ragtrace not sampled": 1.5}  # of all processor time, x bare


@dataclass
class Figures:
    """What was measured of one subject, one entry per request (nanoseconds) or per block."""

    wall: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    process: list[float] = field(default_factory=list)


def block(subject: subjects.Subject, work: subjects.Work, count: int, figures: Figures) -> None:
    """`count` requests on the caller's thread, then all that they left to the background."""
    subject.begin()
    run, wall, thread = subject.run, time.perf_counter_ns, time.thread_time_ns
    began = time.process_time_ns()
    for _ in range(count):
        hits = work.hits()
        cpu, at = thread(), wall()
        run(hits)
        ended, spent = wall(), thread()
        figures.wall.append(ended - at)
        figures.thread.append(spent - cpu)
    subject.flush()
    figures.process.append((time.process_time_ns() - began) / count)


def percentile(values: list[int], share: float) -> float:
    """In microseconds."""
    return quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1] / 1000


def measure(chosen: list[subjects.Subject], work: subjects.Work, rounds: int, count: int) -> dict[str, Figures]:
    """All subjects in turn, in another order each round."""
    figures = {subject.name: Figures() for subject in chosen}
    draw = random.Random(1)
    for subject in chosen:
        block(subject, work, count, Figures())  # what is loaded and compiled once is not counted
    for _ in range(rounds):
        for subject in draw.sample(chosen, len(chosen)):
            gc.collect()
            block(subject, work, count, figures[subject.name])
    return figures


def show(chosen: list[subjects.Subject], figures: dict[str, Figures]) -> None:
    """One line per subject."""
    base = figures["bare"]
    nothing = median(figures["nothing"].process) / 1000
    bare = percentile(base.wall, 0.5), percentile(base.thread, 0.5), median(base.process) / 1000 - nothing
    print(f"{'':30}{'wall p50':>9}{'x bare':>8}{'p99/p50':>8}{'cpu p50':>9}{'x bare':>8}{'p99/p50':>8}", end="")
    print(f"{'all cpu':>9}{'x bare':>8}{'kept':>6}   (microseconds per request)")
    for subject in chosen:
        found = figures[subject.name]
        wall, thread = percentile(found.wall, 0.5), percentile(found.thread, 0.5)
        tails = percentile(found.wall, 0.99) / wall, percentile(found.thread, 0.99) / thread
        spent = median(found.process) / 1000 - nothing
        print(f"{subject.name:30}{wall:9.1f}{wall / bare[0]:8.2f}{tails[0]:8.1f}", end="")
        print(f"{thread:9.1f}{thread / bare[1]:8.2f}{tails[1]:8.1f}", end="")
        print(f"{spent:9.1f}{spent / bare[2]:8.2f}{subject.kept():6}")


def show_all_cpu(chosen: list[subjects.Subject], figures: dict[str, Figures]) -> None:
    """All processor time of a request, one line per subject: the median over blocks and their quartiles, x bare."""
    nothing = median(figures["nothing"].process)
    spent = {subject.name: [each - nothing for each in figures[subject.name].process] for subject in chosen}
    bare, tail = median(spent["bare"]), percentile(figures["bare"].thread, 0.99)
    print(f"{'':30}{'all cpu us':>11}{'x bare':>8}{'quartiles':>16}{'bound':>7}", end="")
    print(f"{'caller us':>11}{'x bare':>8}{'p99 x bare':>12}{'kept':>6}")
    for subject in chosen[1:]:
        own, found = spent[subject.name], figures[subject.name]
        low, _, high = quantiles(own, n=4, method="inclusive")
        bound = BOUNDS.get(subject.name.removesuffix(", worker"))
        caller = percentile(found.thread, 0.5)
        print(f"{subject.name:30}{median(own) / 1000:11.1f}{median(own) / bare:8.2f}", end="")
        print(f"{f'{low / bare:.2f} to {high / bare:.2f}':>16}{bound or '':>7}{caller:11.1f}", end="")
        print(f"{caller / percentile(figures['bare'].thread, 0.5):8.2f}", end="")
        print(f"{percentile(found.thread, 0.99) / tail:12.2f}{subject.kept():6}")


def slope(subject: subjects.Subject, draw: random.Random, count: int, rounds: int) -> float:
    """Microseconds of the caller's thread per further candidate: least squares over the medians."""
    spent: dict[int, list[int]] = {size: [] for size in SIZES}
    works = {size: subjects.Work(size) for size in SIZES}
    for _ in range(rounds):
        for size in draw.sample(SIZES, len(SIZES)):
            figures = Figures()
            block(subject, works[size], count, figures)
            spent[size] += figures.thread
    points = [(size, percentile(spent[size], 0.5)) for size in SIZES]
    mean = sum(size for size, _ in points) / len(points)
    return sum((size - mean) * cost for size, cost in points) / sum((size - mean) ** 2 for size, _ in points)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(subject: subjects.Subject, work: subjects.Work, count: int, step: int = 500) -> tuple[int, int]:
    """Bytes held after `count` requests beyond those held after the first tenth; and per request still open."""
    subject.begin()
    held = 0
    for number in range(0, count, step):
        for _ in range(step):
            subject.run(work.hits())
        subject.flush()
        if number < count // 10:
            gc.collect()
            held = resident()
    gc.collect()
    return resident() - held, subjects.bytes_per_open_request(subject, work)


def peers(work: subjects.Work, folder: Path) -> list[subjects.Subject]:
    """One subject per adapter whose tool is installed; a line for each other."""
    found = []
    for path in sorted((Path(__file__).parent / "peers").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        adapter: Any = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(adapter)
            found.append(adapter.subject(work, folder))
        except ImportError as error:
            print(f"{path.stem}: skipped, not installed ({error})")
    return found


def closed_loop(subject: subjects.Subject, work: subjects.Work, count: int) -> None:
    """The tail when requests follow each other without a pause, so that the background competes for the lock."""
    figures = Figures()
    block(subject, work, count, figures)
    wall = percentile(figures.wall, 0.5)
    tail = percentile(figures.wall, 0.99), percentile(figures.thread, 0.99)
    print(f"{subject.name:30} p50 {wall:.1f}, p99 {tail[0]:.1f} (wall) {tail[1]:.1f} (cpu), kept {subject.kept()}")


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all-cpu", action="store_true", help="only all processor time of a request, beside the peers")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}; {ALL_ROUNDS} with --all-cpu")
    parser.add_argument("--block", type=int, help=f"requests per block: {BLOCK}; {ALL_BLOCK} with --all-cpu")
    parser.add_argument("--memory", type=int, default=MEMORY, help="requests of the memory run; 0 leaves it out")
    parser.add_argument("--closed-loop", action="store_true", help="also the tail of a saturated host")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", nargs="*", help="names of subjects, beside nothing and bare")
    parser.add_argument("--json", type=Path, help="also write the medians to this file")
    given = parser.parse_args()
    given.rounds = given.rounds or (ALL_ROUNDS if given.all_cpu else ROUNDS)
    given.block = given.block or (ALL_BLOCK if given.all_cpu else BLOCK)
    return given


def main() -> None:
    """Print the figures."""
    given = options()
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # what a tool drops shows under "kept"
    work = subjects.Work(50, QUESTIONS) if given.all_cpu else subjects.Work(50)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        chosen = [subjects.nothing(work), subjects.bare(work), subjects.bare_with_json(work)]
        chosen += [subjects.bare_unrecorded(work)] if given.all_cpu else []
        builds: list[subjects.Build] = ["host", "worker"] if given.all_cpu else ["host"]
        for build in builds:
            ours = subjects.with_spans, subjects.record_only, subjects.unsampled
            chosen += [make(work, folder, build) for make in ours]
        if not given.no_peers:
            chosen += peers(work, folder)
        if given.only:
            chosen = [one for one in chosen if one.name in ("nothing", "bare", *given.only)]
        print(f"{given.rounds} rounds of {given.block} requests, interleaved; {work.candidates} candidates each")
        figures = measure(chosen, work, given.rounds, given.block)
        if given.all_cpu:
            show_all_cpu(chosen, figures)
        else:
            show(chosen, figures)
            run_more([subject for subject in chosen if subject.name.startswith("ragtrace")], work, given)
        if given.json:
            medians = {name: {"wall": median(f.wall), "thread": median(f.thread)} for name, f in figures.items()}
            given.json.write_text(json.dumps(medians))
        for subject in chosen:
            subject.close()


def run_more(ours: list[subjects.Subject], work: subjects.Work, given: argparse.Namespace) -> None:
    """Slope, memory and, on request, the closed loop of ragtrace's own subjects."""
    for subject in ours:
        print(f"{subject.name:30} {slope(subject, random.Random(2), 50, given.rounds // 3 + 1):.3f} us per candidate")
    for subject in ours if given.memory else ():
        grown, opened = memory(subject, work, given.memory)
        print(f"{subject.name:30} {grown / 1024:+.0f} KiB after {given.memory} requests, {opened} bytes per open one")
    for subject in ours if given.closed_loop else ():
        closed_loop(subject, work, given.memory or MEMORY)


if __name__ == "__main__":
    main()
