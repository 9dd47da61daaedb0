"""Spans of real exporters until they can be queried: `ragtrace serve` beside the floor and arize-phoenix, interleaved.

Each round starts every receiver in turn with an empty database, waits until it rests, sends it the same prepared
traces, and waits until the last of them is committed and can be queried. Then two reads of stores of the sizes given,
which are made in place and deleted: the newest 50 requests of a segment, and one request whole.

Usage: python bench/ingest.py [--traces N] [--rounds N] [--only PART,PART] [--phoenix PYTHON] [--reads SIZE ...]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.receivers import GRACE, Floor, Ours, Phoenix, Postgres, PostgresDatabase, Receiver, SqliteFile
from bench.receivers.databases import Database
from bench.sending import Load, Sending, Sent, prepare
from bench.stored import NEWEST, Reads, fill, read, room_for
from ragtrace.store import Store

TRACES, ROUNDS, BATCH, EXPORTERS = 4000, 3, 10, 4
FEWER: Final = 20  # times, for phoenix
PARTS: Final = ("ragtrace", "floor", "postgresql", "phoenix", "reads")
POLL: Final = 0.05  # seconds between two questions whether all can be queried
PATIENCE: Final = 600.0  # seconds of one receiver in one round


@dataclass(frozen=True, slots=True)
class Figures:
    """One receiver in one round. cpu: milliseconds of a trace; kept: bytes of a trace once spans are forgotten."""

    rate: float
    cpu: float
    peak: int
    size: float
    kept: float
    sender: float


@dataclass
class Subject:
    """A receiver, and what was measured of it."""

    receiver: Receiver
    traces: int
    found: list[Figures] = field(default_factory=list)

    def of(self, what: str) -> list[float]:
        """One figure in all rounds."""
        return [getattr(each, what) for each in self.found]


def measure(subject: Subject, load: Load, exporters: int) -> Figures:
    """Send the load's first traces, in whole requests, to a receiver that starts anew."""
    receiver = subject.receiver
    requests = -(-subject.traces // load.batch)
    ids = load.ids[: requests * load.batch]
    with tempfile.TemporaryDirectory(prefix="ragtrace-ingest-", ignore_cleanup_errors=True) as name:
        endpoint = receiver.start(Path(name))
        sending = None
        try:
            receiver.settle()
            empty, before = receiver.database.size(), receiver.usage()
            sending = Sending(load.file, endpoint, exporters, requests)
            sending.start()
            sent = _wait(receiver, sending, len(ids))
            ended, after = time.monotonic(), receiver.usage()
            receiver.check(ids)
        finally:
            if sending is not None:
                sending.stop()
            receiver.close()
            receiver.server.stop()
        size = receiver.database.size() - empty
        kept = receiver.database.size() - empty if receiver.forget() else size
        receiver.database.drop()
    count = len(ids)
    cpu = 1000 * (after.cpu - before.cpu) / count
    sender = 1000 * sent.cpu / count
    return Figures(count / (ended - sent.began), cpu, after.peak, size / count, kept / count, sender)


def _wait(receiver: Receiver, sending: Sending, traces: int) -> Sent:
    """Until all that was sent can be queried."""
    deadline, sent = time.monotonic() + PATIENCE, None
    while sent is None or not receiver.is_queryable(traces):
        if sent is None and sending.is_done():
            sent = sending.result()
            if sent.failed:
                raise RuntimeError(f"{receiver.name}: {sent.failed} spans were given up by their exporter")
            continue
        receiver.server.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{receiver.name}: not all of {traces} traces can be queried after {PATIENCE:.0f} s")
        time.sleep(POLL)
    return sent


def spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """The median, and the least and greatest."""
    said = [form.format(value) for value in (median(values), min(values), max(values))]
    return f"{said[0]} ({said[1]} to {said[2]})" if len(values) > 1 else said[0]


def show(subjects: Sequence[Subject]) -> None:
    """One line per receiver: medians, and the spread over the rounds."""
    head = ("traces/s until queryable", "cpu ms/trace", "peak MB", "kB/trace", "spans forgotten", "sender ms")
    print(f"\n{'':22}{head[0]:>26}{head[1]:>24}{head[2]:>9}{head[3]:>10}{head[4]:>17}{head[5]:>11}")
    for each in subjects:
        peak, size, kept = (median(each.of(what)) for what in ("peak", "size", "kept"))
        print(f"{each.receiver.name:22}{spread(each.of('rate')):>26}{spread(each.of('cpu'), '{:.2f}'):>24}", end="")
        print(f"{peak / 1e6:9.0f}{size / 1000:10.1f}{kept / 1000:17.1f}{median(each.of('sender')):11.2f}")


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Of the rounds in which there is something to divide by: the clock of a process shows hundredths of a second."""
    return [one / other for one, other in zip(ours, theirs, strict=True) if other > 0]


def judge(what: str, values: Sequence[float], bound: float | None = None, *, at_least: bool = False) -> None:
    """A ratio in all rounds, beside its bound where it has one."""
    if not values:
        print(f"{what:58}{'too little to measure':>26}")
        return
    if bound is None:
        print(f"{what:58}{spread(values, '{:.3f}'):>26}")
        return
    is_met = median(values) >= bound if at_least else median(values) <= bound
    print(
        f"{what:58}{spread(values, '{:.3f}'):>26}   bound: at {'least' if at_least else 'most'} {bound:.3g}: "
        f"{'met' if is_met else 'not met'}"
    )


def compare(subjects: Sequence[Subject]) -> None:
    """The ratios of each round."""
    known = {each.receiver.name.partition(" ")[0] + each.receiver.database.kind: each for each in subjects}

    def of(what: str, one: str, other: str) -> list[float]:
        return ratios(known[one].of(what), known[other].of(what))

    print("\nratios within a round")
    for kind in ("sqlite", "postgresql"):
        ours, floor, phoenix = f"ragtrace{kind}", f"floor{kind}", "phoenixsqlite"
        if ours in known and floor in known:
            judge(f"{kind}: rate, of the floor's", of("rate", ours, floor), 0.6, at_least=True)
            judge(f"{kind}: cpu, of the floor's", of("cpu", ours, floor))
        if ours in known and phoenix in known:
            judge(f"{kind}: cpu, of phoenix's", of("cpu", ours, phoenix), 1 / 20)
            judge(f"{kind}: bytes, of phoenix's", of("size", ours, phoenix), 1 / 3)
            judge(f"{kind}: bytes once spans are forgotten, of phoenix's", of("kept", ours, phoenix), 1 / 3)


def chosen(given: argparse.Namespace, postgres: Postgres | None) -> list[Subject]:
    """The receivers that can be started."""
    databases: list[Database] = [SqliteFile()] if postgres is None else [SqliteFile(), PostgresDatabase(postgres)]
    kinds: dict[str, Callable[[Database], Receiver]] = {"ragtrace": Ours, "floor": Floor}
    made = [Subject(kinds[part](each), given.traces) for each in databases for part in kinds if part in given.parts]
    if "phoenix" in given.parts:
        try:
            if given.phoenix is None:
                raise LookupError("no --phoenix PYTHON and no RAGTRACE_BENCH_PHOENIX")
            made.append(Subject(Phoenix(given.phoenix), given.phoenix_traces))
        except LookupError as error:
            print(f"phoenix: skipped, {error}")
    return made


def started(given: argparse.Namespace, stack: ExitStack) -> Postgres | None:
    """A PostgreSQL server, where it is asked for and can be started."""
    if "postgresql" not in given.parts and given.reads_on == "sqlite":
        return None
    try:
        postgres = Postgres()
    except LookupError as error:
        print(f"postgresql: skipped, {error}")
        return None
    stack.callback(postgres.stop)
    return postgres


def run(subjects: list[Subject], given: argparse.Namespace) -> None:
    """All rounds of all receivers, and what was found."""
    with tempfile.TemporaryDirectory(prefix="ragtrace-ingest-") as name:
        load = prepare(Path(name) / "load", given.traces, given.batch)
        print(
            f"{given.rounds} rounds of {load.traces} traces, interleaved: {load.size / load.traces / 1000:.1f} kB each,"
            f" {given.batch} in a request, {given.exporters} exporters; Zstandard makes 4 kB of text {load.ratio:.2f} "
            f"times smaller\nspans were made and encoded before, in {1000 * load.seconds:.1f} ms of a sender's "
            f"processor for a trace; --grace {GRACE}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        for number in range(given.rounds):
            for subject in subjects[number % len(subjects) :] + subjects[: number % len(subjects)]:
                subject.found.append(measure(subject, load, given.exporters))
                last = subject.found[-1]
                told = f"{subject.receiver.name:22}{last.rate:8.0f} traces/s{last.cpu:8.2f} ms of processor"
                print(f"  round {number + 1}  {told}", flush=True)
    show(subjects)
    compare(subjects)


def run_reads(sizes: Sequence[int], rounds: int, count: int, postgres: Postgres | None) -> None:
    """Make a store of each size, and read all of them in turn."""
    with ExitStack() as stack:
        stores: list[tuple[int, Store, list[Reads]]] = []
        for size in sorted(sizes):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragtrace-reads-")))
            database: Database = SqliteFile() if postgres is None else PostgresDatabase(postgres)
            room_for(size, folder)
            store = stack.enter_context(Store.open(database.create(folder)))
            began = time.perf_counter()
            fill(store, size, database.size)
            stores.append((size, store, []))
            print(
                f"\n{size:,} requests in {database.kind}: {database.size() / 1e9:.2f} GB, "
                f"made in {time.perf_counter() - began:.0f} s",
                end="",
                flush=True,
            )
        print(f"\np95 of {count} reads in each of {rounds} rounds, milliseconds, the system's cache warm")
        for number in range(rounds):
            for size, store, found in stores if number % 2 else reversed(stores):
                found.append(read(store, size, count, random.Random(number)))
        judge_reads([(size, found) for size, _, found in stores])


def judge_reads(measured: Sequence[tuple[int, Sequence[Reads]]]) -> None:
    """Both reads at every size, and the largest beside the smallest."""
    for what, name in (("listed", f"the newest {NEWEST} of a segment"), ("opened", "one request")):
        values = [(size, [getattr(each, what) for each in found]) for size, found in measured]
        for size, taken in values:
            judge(f"{name}, of {size:,}", taken, 50.0)
        (least, few), (most, many) = values[0], values[-1]
        if least != most:
            judge(f"{name}: {most:,} beside {least:,}", ratios(many, few), 2.0)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--traces", type=int, default=TRACES, help="of each receiver in each round")
    parser.add_argument("--phoenix-traces", type=int, help="of phoenix [default: a twentieth]")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--batch", type=int, default=BATCH, help="traces of a request")
    parser.add_argument("--exporters", type=int, default=EXPORTERS, help="that send at once")
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts, with commas between them [default: %(default)s]"
    )
    parser.add_argument("--phoenix", type=Path, default=os.environ.get("RAGTRACE_BENCH_PHOENIX"), metavar="PYTHON")
    parser.add_argument("--reads", type=int, nargs="+", default=[10_000], metavar="SIZE", help="requests of a store")
    parser.add_argument("--read", type=int, default=300, help="reads of each kind in a round")
    parser.add_argument("--reads-on", choices=("sqlite", "postgresql"), default="sqlite")
    given = parser.parse_args(arguments)
    given.parts = given.only.split(",")
    if strange := set(given.parts) - set(PARTS):
        parser.error(f"--only: {', '.join(sorted(strange))}; known are {', '.join(PARTS)}")
    given.phoenix_traces = given.phoenix_traces or max(1, given.traces // FEWER)
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    given = options(arguments)
    with ExitStack() as stack:
        postgres = started(given, stack)
        if subjects := chosen(given, postgres if "postgresql" in given.parts else None):
            run(subjects, given)
        if "reads" in given.parts and (given.reads_on == "sqlite" or postgres is not None):
            run_reads(given.reads, given.rounds, given.read, None if given.reads_on == "sqlite" else postgres)


if __name__ == "__main__":
    main()
