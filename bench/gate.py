"""What the release gate promises, tried out: who passes, false blocks, power, a small segment's loss, speed and memory.

Scores are drawn from the requests of a store; without --store the demo is run and its requests are taken. Of a paired
comparison the candidate repeats the baseline's request, and 3 in 10 are drawn anew, as generators that vary would do.

Usage: python bench/gate.py [--store URL] [--runs N] [--seed N] [--processes N] [--part NAME ...]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from multiprocessing import get_context
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragtrace.gate._judgment import decide, first_broken, judge
from ragtrace.gate._metrics import METRICS
from ragtrace.gate._population import load
from ragtrace.gate._selfcheck import worsen
from ragtrace.gate.policy import default_policy
from ragtrace.gate.selection import parse
from ragtrace.gate.types import Comparison, Policy, Population
from ragtrace.sample_statistics import wilson

AGAIN: Final = 0.3
ALIKE: Final = 0.05
EIGHT: Final = tuple(f"segment {number}" for number in range(1, 9))
LOST: Final = ("candidate_recall", "evidence_recall", "answer_coverage", "broken_generation")
PARTS: Final = ("passes", "false-blocks", "power", "segment", "speed")
QUESTIONS: Final = 204
CANDIDATES: Final = ("identical", "10 % of answers anew", "deeper", "other chunker", "worse by the margin", "off-topic")
"""Who asks to go out: a version again; one of whose answers a tenth are drawn anew from like questions; one that finds
more, with nine of ten prompts the same; one whose every prompt differs, with the same evidence and a twentieth of the
answers anew; one that breaks generation in exactly as many more requests as the margin; one a fifth of whose answers in
one segment are to other questions."""


@dataclass(frozen=True, slots=True)
class Design:
    """How a comparison is drawn."""

    name: str
    paired: bool
    size: int
    segments: tuple[str, ...] = EIGHT
    shares: tuple[float, ...] = (1 / 8,) * 8
    session: int = 1
    weighted: bool = False


DESIGNS: Final = (
    Design("paired, balanced", True, 400),
    Design("paired, 3 % minority", True, 1500, ("most", "few"), (0.97, 0.03)),
    Design("unpaired, balanced", False, 400),
    Design("unpaired, 3 % minority", False, 1500, ("most", "few"), (0.97, 0.03)),
    Design("paired, sessions of 4", True, 800, session=4),
    Design("unpaired, half of weight 10", False, 400, weighted=True),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Requests to draw from, and the rules that they have values for."""

    population: Population
    policy: Policy

    @classmethod
    def read(cls, url: str) -> Source:
        """All requests of a store, with the default rules."""
        policy = default_policy()
        metrics = [rule.metric for rule in policy.rules]
        population = load((parse("--baseline", url),), store=None, service=None, metrics=metrics).populations[0]
        rules = tuple(rule for rule in policy.rules if not np.isnan(population.scores[rule.metric]).all())
        return cls(population, msgspec.structs.replace(policy, rules=rules, resamples=400))

    def take(self, rows: NDArray[np.int64], design: Design, segments: Sequence[str], weights: bool) -> Population:
        """A side with these requests' scores."""
        count = len(rows)
        names = [f"{number:06d}" for number in range(count)]
        heavy = np.where(np.arange(count) % 2 == 0, 10.0, 1.0) if weights else np.ones(count)
        return replace(
            self.population,
            request_ids=names,
            questions=names,
            segments=segments,
            clusters=[f"{number // design.session:06d}" for number in range(count)],
            weights=heavy,
            scores={rule.metric: self.population.scores[rule.metric][rows] for rule in self.policy.rules},
            states={},
            causes=[""] * count,
        )

    def draw(self, design: Design, chance: np.random.Generator) -> Comparison:
        """Two equal versions. Requests of a session are alike: half of them repeat its first."""
        sides, segments = [self._rows(design, chance), self._rows(design, chance)], self._segments(design, chance)
        if design.paired:
            again = chance.random(design.size) < AGAIN
            sides[1] = np.where(again, sides[1], sides[0])
            one, two = (self.take(rows, design, segments, design.weighted) for rows in sides)
            return Comparison(one, two, np.repeat(np.arange(design.size, dtype=np.int64)[:, None], 2, axis=1))
        one = self.take(sides[0], design, segments, design.weighted)
        return Comparison(one, self.take(sides[1], design, self._segments(design, chance), design.weighted), None)

    def _rows(self, design: Design, chance: np.random.Generator) -> NDArray[np.int64]:
        rows = chance.integers(0, len(self.population), design.size)
        first = rows[np.arange(design.size) // design.session * design.session]
        return np.where(chance.random(design.size) < 0.5, first, rows)

    def _segments(self, design: Design, chance: np.random.Generator) -> list[str]:
        return [design.segments[at] for at in chance.choice(len(design.segments), design.size, p=design.shares)]


def equal_versions(source: Source, design: Design, seed: int) -> str:
    """The decision about a candidate that is as good as the baseline, for harm alone."""
    cells = judge(source.draw(design, np.random.default_rng([seed, 1])), source.policy)
    return "block" if any(cell.blocks for cell in cells) else decide(cells, source.policy)


def asked_to_go_out(source: Source, name: str, seed: int) -> str:
    """The decision about one of `CANDIDATES` with 204 questions in five segments, of which the largest has 60."""
    chance = np.random.default_rng([seed, 5])
    design = Design(name, True, QUESTIONS, EIGHT[:5], (0.3, 0.25, 0.2, 0.15, 0.1))
    rows, segments = chance.integers(0, len(source.population), QUESTIONS), source._segments(design, chance)
    if name == "off-topic":  # the demo's faults are no part of what is in use
        rows = chance.choice(np.flatnonzero(source.population.scores["broken_generation"] == 0), QUESTIONS)
    one = source.take(rows, design, segments, False)
    comparison = _candidate(source, name, one, rows, chance)
    cells = judge(comparison, source.policy)
    decision = decide(cells, source.policy)
    return f"block {first_broken(cells)}" if decision == "block" else decision


def _candidate(
    source: Source, name: str, one: Population, rows: NDArray[np.int64], chance: np.random.Generator
) -> Comparison:
    """A candidate beside its baseline. Only what the answer is judged by is drawn anew, among requests alike: those
    with the same state of generation before, in as many as the state varies by chance (5 %)."""
    count, scores = len(one), dict(one.scores)
    anew = np.zeros(count, dtype=np.bool_)
    same = {stage: np.ones(count, dtype=np.bool_) for stage in ("retrieval", "ranking", "generation", "citation")}
    if name in ("10 % of answers anew", "other chunker"):
        anew = chance.random(count) < (0.1 if name.startswith("10") else 0.05)
        other = chance.integers(0, len(source.population), count)
        states, drawn = source.population.scores["broken_generation"], chance.random(count) < ALIKE
        alike = anew & (drawn | (states[rows] == states[other]))
        for metric in scores:
            if METRICS[metric].stage == "generation" and METRICS[metric].kind != "quantity":
                scores[metric] = np.where(alike, source.population.scores[metric][other], scores[metric])
    if name == "deeper":
        anew = chance.random(count) < 0.1
        for metric in ("candidate_recall", "evidence_recall", "query_coverage"):
            if metric in scores:
                scores[metric] = np.where(anew, np.minimum(1.0, scores[metric] + 0.1), scores[metric])
        if "evidence_presence" in scores:
            scores["evidence_presence"] = np.maximum(0.0, scores["evidence_presence"] - 0.016)
    if name in ("worse by the margin", "off-topic"):
        loss = next(rule.margin for rule in source.policy.rules if rule.metric == "broken_generation")
        sound = scores["broken_generation"] == 0
        share = loss / max(loss, float(np.mean(source.population.scores["broken_generation"] == 0)))
        largest = np.array([segment == EIGHT[0] for segment in one.segments])
        anew = sound & (chance.random(count) < share) if name[0] == "w" else largest & (chance.random(count) < 0.2)
        scores["broken_generation"] = np.where(anew, 1.0, scores["broken_generation"])
        for metric in ("answer_coverage", "answer_relevance") if name == "off-topic" else ():
            scores[metric] = np.where(anew, 0.05, scores[metric])
    changed = np.ones(count, dtype=np.bool_) if name == "other chunker" else anew
    touched = ("generation", "citation") if name not in ("deeper", "other chunker") else tuple(same)
    for stage in touched:
        same[stage] = ~changed
    at = np.arange(count, dtype=np.int64)
    return Comparison(one, replace(one, scores=scores), np.column_stack([at, at]), unchanged=same)  # type: ignore[arg-type]


def announced(source: Source, metric: str, paired: bool, seed: int) -> tuple[int, bool] | None:
    """What a pilot of 300 says it takes to find a loss of the margin, and whether that many found it."""
    chance = np.random.default_rng([seed, 2])
    pilot = Design("pilot", paired, 300)
    cells = judge(source.draw(pilot, chance), source.policy)
    cell = next(cell for cell in cells if cell.metric == metric and cell.segment is None)
    if cell.needed is None:
        return None
    needed = ceil(cell.needed * pilot.size / min(cell.n))  # as many have a value as it says
    comparison = source.draw(replace(pilot, size=needed), chance)
    rules = [rule for rule in source.policy.rules if rule.metric == metric]
    worse = replace(comparison, candidate=worsen(comparison.candidate, rules, chance))
    cells = judge(worse, source.policy)
    return needed, any(cell.blocks and cell.metric == metric for cell in cells)


def small_segment(source: Source, pairs: int, seed: int) -> tuple[bool, bool]:
    """A loss of 0.1 in a segment of 5 %, differences of SD 0.2, all others better by 0.02: whether the global mean
    improves, and whether the segment's cell blocks. Twelve metrics, eight segments."""
    chance = np.random.default_rng([seed, 3])
    twelve = _twelve(source)
    design = Design("5 %", True, pairs, EIGHT, (0.05, *[0.95 / 7] * 7))
    comparison = twelve.draw(design, chance)
    few = np.array([name == EIGHT[0] for name in comparison.baseline.segments])
    before = chance.uniform(0.45, 0.55, pairs)
    gap = 0.2 * np.sqrt(3) * chance.uniform(-1, 1, pairs) + np.where(few, -0.1, 0.02)
    scores = [{**side.scores, "answer_coverage": values}
              for side, values in ((comparison.baseline, before), (comparison.candidate, before + gap))]  # fmt: skip
    one, two = replace(comparison.baseline, scores=scores[0]), replace(comparison.candidate, scores=scores[1])
    cells = judge(Comparison(one, two, comparison.pairs), twelve.policy)
    hit = any(cell.blocks and (cell.metric, cell.segment) == ("answer_coverage", EIGHT[0]) for cell in cells)
    return bool(gap.mean() > 0), hit


def _twelve(source: Source) -> Source:
    """Exactly twelve blocking metrics: the source's own, some of them twice."""
    own = [rule for rule in source.policy.rules if rule.metric != "answer_coverage"]
    rules = [next(rule for rule in source.policy.rules if rule.metric == "answer_coverage")]
    scores = dict(source.population.scores)
    for number in range(11):
        rule = own[number % len(own)]
        name = f"{rule.metric} {number // len(own) + 1}"
        scores[name] = scores[rule.metric]
        rules.append(msgspec.structs.replace(rule, metric=name, action="block", segment_action="block"))
    policy = msgspec.structs.replace(source.policy, rules=tuple(rules))
    return Source(replace(source.population, scores=scores), policy)


Spread = Callable[[Callable[[int], object], int], Iterator[object]]


@contextmanager
def processes(number: int, first: int) -> Iterator[Spread]:
    """Runs something for many seeds from `first` on, on all cores: yields `spread(call, runs)`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when the processes import NumPy
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        yield lambda call, runs: pool.map(call, range(first, first + runs), chunksize=max(1, min(20, runs // number)))


def print_false_blocks(source: Source, runs: int, spread: Spread) -> None:
    """Equal versions: how often they are blocked, pass, or stay undecided."""
    print(f"equal versions, {runs} comparisons each, {len(source.policy.rules)} metrics, alpha {source.policy.alpha}")
    for design in DESIGNS:
        found = Counter(spread(partial(equal_versions, source, design), runs))
        low, high = wilson(found["block"], runs, 1.96)
        kept = "kept" if low <= source.policy.alpha else "NOT KEPT"
        rates = f"pass {found['pass'] / runs:.3f}, undecided {found['undecided'] / runs:.3f}"
        block = f"blocked {found['block'] / runs:.4f} ({low:.4f} to {high:.4f}) {kept}"
        print(f"  {design.name:28s} n {design.size:5d}  {block}; {rates}", flush=True)


def print_passes(source: Source, runs: int, spread: Spread) -> None:
    """How often each candidate passes with 204 questions, and at which stage it is blocked."""
    print(f"{QUESTIONS} questions, 5 segments, {runs} comparisons each")
    for name in CANDIDATES:
        found = Counter(str(decision) for decision in spread(partial(asked_to_go_out, source, name), runs))
        low, high = wilson(found["pass"], runs, 1.96)
        rest = ", ".join(
            f"{decision} {number / runs:.3f}" for decision, number in found.most_common() if decision != "pass"
        )
        print(f"  {name:22s} pass {found['pass'] / runs:.3f} ({low:.3f} to {high:.3f})  {rest}", flush=True)


def print_power(source: Source, runs: int, spread: Spread) -> None:
    """The share of comparisons that find a loss of the margin at the size that a pilot announced."""
    print(f"power at the announced size (wanted {source.policy.power}), pilots of 300, {runs} each")
    for paired in (True, False):
        for metric in LOST:
            results = list(spread(partial(announced, source, metric, paired), runs))
            tried = [each for each in results if isinstance(each, tuple)]
            sizes, hits = [each[0] for each in tried], sum(each[1] for each in tried)
            low, high = wilson(hits, len(tried), 1.96)
            name = f"{'paired' if paired else 'unpaired'}, {metric}"
            rate = hits / max(1, len(tried))
            print(
                f"  {name:32s} median n {np.median(sizes):6.0f}  found {rate:.3f} ({low:.3f} to {high:.3f})", flush=True
            )


def print_segment(source: Source, runs: int, spread: Spread) -> None:
    """A loss that the mean over all hides."""
    for pairs in (2000,):
        found = [each for each in spread(partial(small_segment, source, pairs), runs) if isinstance(each, tuple)]
        better, hits = sum(each[0] for each in found), sum(each[1] for each in found)
        low, high = wilson(hits, runs, 1.96)
        print(f"a segment of 5 % loses 0.1, {pairs} pairs, {runs} comparisons: blocked {hits / runs:.3f} "
              f"({low:.3f} to {high:.3f}); the global mean improves in {better / runs:.3f}", flush=True)  # fmt: skip


def print_speed(source: Source, size: int = 100_000) -> None:
    """Seconds and memory of one comparison: 12 metrics, 8 segments."""
    twelve = _twelve(source)
    rules = msgspec.structs.replace(twelve.policy, resamples=2000)
    for paired in (True, False):
        comparison = twelve.draw(Design("speed", paired, size), np.random.default_rng(4))
        before, started, used = _memory(), time.perf_counter(), time.process_time()
        cells = judge(comparison, rules)
        print(f"{size:,} {'pairs' if paired else 'requests a side'}, {len(cells)} cells: "
              f"{time.perf_counter() - started:.1f} s ({time.process_time() - used:.1f} s of CPU), "
              f"{_memory():.0f} MB at most, {before:.0f} MB of them before", flush=True)  # fmt: skip


def _memory() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@contextmanager
def _store(given: str | None) -> Iterator[str]:
    """The store that was named, or the demo's in a folder of its own."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="ragtrace-bench-") as folder:
        url = f"sqlite:///{folder}/demo.db"
        command = [sys.executable, "-m", "ragtrace", "demo", "--store", url, "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield url


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="the URL of a store; without it the demo is run")
    parser.add_argument("--runs", type=int, default=2000, help="comparisons of each kind")
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all of them without it")
    parser.add_argument("--seed", type=int, default=0, help="of the first comparison, to go on where a run ended")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    parts = given.part or PARTS
    with _store(given.store) as url, processes(given.processes, given.seed) as spread:
        source = Source.read(url)
        if "passes" in parts:
            print_passes(source, given.runs, spread)
        if "false-blocks" in parts:
            print_false_blocks(source, given.runs, spread)
        if "power" in parts:
            print_power(source, max(1, given.runs // 5), spread)
        if "segment" in parts:
            print_segment(source, given.runs, spread)
        if "speed" in parts:
            print_speed(source)


if __name__ == "__main__":
    main()
