"""The built-in judge of relevance on data sets that its fit did not see, beside words; and whether its grades tell that
evidence is there.

Of each question the ten passages that BM25 finds are judged, and those of its evidence that it does not find. A set is
judged by weights that the other sets gave. The fit is a logistic regression with an offset for each set, in which each
set and both of its labels weigh the same; no weight may be negative. Intervals of AUROC are of 95 %, over resampled
questions.

Then evidence of a share of the questions (`--removed`) is taken away. Half of the questions fit the least grade from
which CORRECT is right in nine of ten for sure, and the others tell how often it is: an action is right where evidence
is among the candidates. AMBIGUOUS ends where it is there in less than half. Beside it stands how often evidence is
there for the questions with the best grades, and what 200 halvings make of thresholds that are less sure.

Usage: python bench/builtin_relevance.py [--sets NAME ...] [--questions N] [--features FILE] [--fit]
[--removed SHARE ...] [--proxy] [--cost]; RAGTRACE_BENCH_DATA names the folder of the data sets. `--fit` prints the
weights that `ragtrace/engines/_builtin_relevance.py` holds. `--proxy`: what grades add to the proxy reference.
`--cost`: processor seconds of one core for a request of 10 claims and 50 candidates, and memory.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA, half_of, read
from bench.support import auroc
from bench.verdicts.handwritten import read_domains
from ragtrace.analyze import examine
from ragtrace.analyze._verification import Models, judge as judge_records
from ragtrace.coverage import extract_facets, proxy_classes
from ragtrace.demo.corrective import WordIndex
from ragtrace.engines._builtin_relevance import FEATURES, BuiltinRelevance
from ragtrace.engines.models import torch_threads
from ragtrace.grading import ACTIONS, GradeThresholds, document_action, fit_upper, grade_of
from ragtrace.sample_statistics import TWO_SIDED_95, wilson
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)

OPEN: Final = ("clapnq", "mtrag", "handwritten")
UNSEEN: Final = ("scifact", "handwritten-held-out")
RIDGE: Final = 20.0
PER_SET: Final = 1000.0
FOUND: Final = 10
MOST: Final = 400  # questions of a set
DRAWS: Final = 500
WANTED: Final = 0.9
CALLED: Final = (0.1, 0.2, 0.3, 0.5, 0.7)  # shares of the questions, those with the best grades
HALVINGS: Final = 200
CLAIMS, CANDIDATES = 10, 50  # of a request whose cost is measured
FEWEST: Final = 10  # questions that a threshold rests on
_UNASKED: Final = ("chit_chat", "language", "json", "code")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its candidates and which of them hold its evidence."""

    name: str
    question: str
    texts: tuple[str, ...]
    is_relevant: tuple[bool, ...]
    words: tuple[float, ...]
    scores: tuple[float, ...]  # BM25's, of those that it found; they come first


@dataclass(frozen=True, slots=True)
class Judged:
    """A set's pairs as arrays. owners: the number of each pair's question; halves: of each question."""

    rows: Floats
    truth: NDArray[np.bool_]
    owners: NDArray[np.int_]
    words: Floats
    halves: NDArray[np.bool_]


def some(name: str, most: int) -> list[Asked]:
    """At most so many questions of a set, drawn by a fixed seed. Raises: FileNotFoundError."""
    found = list(questions(name))
    return found if len(found) <= most else random.Random(0).sample(found, most)


def questions(name: str) -> Iterator[Asked]:
    """The questions of a set, at most `MOST`, drawn by a fixed seed. Raises: FileNotFoundError."""
    if name.startswith("handwritten"):
        for domain in read_domains(held_out=True):
            if domain.held_out != (name != "handwritten"):
                continue
            passages = {passage.id: passage.chunk for passage in domain.passages.values()}
            index = WordIndex(passages)
            for each in domain.questions:
                evidence = {key for group in each.evidence for key in group}
                if evidence and each.kind not in _UNASKED:
                    yield _asked(index, passages, f"{domain.name}/{each.id}", each.question, evidence)
        return
    data = read(name, DATA)
    index = WordIndex(data.passages)
    cases = list(data.cases)
    random.Random(0).shuffle(cases)
    for case in cases[:MOST]:
        yield _asked(index, data.passages, case.case_id, case.asked, set(case.evidence))


def _asked(index: WordIndex, passages: Mapping[str, str], name: str, question: str, evidence: set[str]) -> Asked:
    best = index.find(question)[:FOUND]
    found = [each.chunk_id for each in best]
    chosen = [*found, *sorted(evidence.intersection(passages) - set(found))]
    texts = tuple(passages[key] for key in chosen)
    grades = tuple(index.grade(question, texts))
    scores = tuple(each.score for each in best)
    return Asked(name, question, texts, tuple(key in evidence for key in chosen), grades, scores)


def judged(asked: Sequence[Asked], judge: BuiltinRelevance) -> Judged:
    """The features of all pairs of a set."""
    rows = [judge.features([(each.question, text) for text in each.texts]) for each in asked]
    return Judged(
        np.concatenate(rows),
        np.array([one for each in asked for one in each.is_relevant]),
        np.array([place for place, each in enumerate(asked) for _ in each.texts]),
        np.array([one for each in asked for one in each.words]),
        np.array([half_of(each.name) == "development" for each in asked]),
    )


def fit(sets: Sequence[Judged]) -> tuple[Floats, Floats]:
    """The weights of `FEATURES`, and the offset of each set at even odds."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    x = np.concatenate([each.rows for each in sets])
    truth = np.concatenate([each.truth for each in sets]).astype(float)
    which = np.concatenate([np.full(len(each.truth), place) for place, each in enumerate(sets)])
    weight = np.concatenate(
        [np.where(each.truth, PER_SET / 2 / each.truth.sum(), PER_SET / 2 / (~each.truth).sum()) for each in sets]
    )
    scale, count = x.std(axis=0) + 1e-9, len(FEATURES)
    z = (x - x.mean(axis=0)) / scale

    def loss(t: Floats) -> tuple[float, Floats]:
        odds = z @ t[:count] + t[count:][which]
        error = weight * (1 / (1 + np.exp(-odds)) - truth)
        gradient = np.append(z.T @ error + RIDGE * t[:count], np.bincount(which, error, minlength=len(sets)))
        fitted = (weight * (np.logaddexp(0, odds) - truth * odds)).sum()
        return float(fitted + RIDGE * (t[:count] ** 2).sum() / 2), gradient

    bounds = [(0, None)] * count + [(None, None)] * len(sets)
    found = minimize(loss, np.zeros(count + len(sets)), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = found[:count] / scale
    return weights, found[count:] - x.mean(axis=0) @ weights


def grades_by_others(name: str, sets: Mapping[str, Judged]) -> Floats:
    """The grades of a set's pairs by weights that other sets gave."""
    weights, offsets = fit([sets[each] for each in OPEN if each in sets and each != name])
    odds = sets[name].rows @ weights + offsets.mean()
    return np.array([grade_of(float(share)) for share in 1 / (1 + np.exp(-odds))])


def interval(truth: NDArray[np.bool_], scores: Floats, owners: NDArray[np.int_]) -> tuple[float, float, float]:
    """The AUROC with its interval over resampled owners."""
    groups = [np.flatnonzero(owners == owner) for owner in np.unique(owners)]
    draw, draws = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = np.concatenate([groups[each] for each in draw.integers(len(groups), size=len(groups))])
        if 0 < truth[rows].sum() < len(rows):
            draws.append(auroc(truth[rows].astype(float), scores[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return auroc(truth.astype(float), scores), float(low), float(high)


def first_right(each: Judged, scores: Floats) -> float:
    """The share of the questions whose best candidate is relevant."""
    places = [np.flatnonzero(each.owners == owner) for owner in np.unique(each.owners)]
    return statistics.fmean(
        float(each.truth[rows[np.argmax(scores[rows])]]) for rows in places if each.truth[rows].any()
    )


def print_ranking(sets: Mapping[str, Judged]) -> None:
    """How well grades tell relevant candidates from others, beside words."""
    print(f"{'set':22} pairs (relevant)  builtin: AUROC [95 %], best is relevant     words: AUROC, best is relevant")
    for name, each in sets.items():
        grades = grades_by_others(name, sets)
        value, low, high = interval(each.truth, grades, each.owners)
        words = auroc(each.truth.astype(float), each.words)
        print(
            f"{name:22} {len(each.truth):5} ({each.truth.sum():4})  {value:.3f} [{low:.3f}, {high:.3f}]"
            f"{first_right(each, grades):14.0%}{words:22.3f}{first_right(each, each.words):14.0%}",
            flush=True,
        )


def print_actions(sets: Mapping[str, Judged], removed: float) -> None:
    """Whether the best grade tells that evidence is there, and the actions at thresholds of the other half."""
    print(f"\nevidence of {removed:.0%} of the questions is taken away")
    for name, each in sets.items():
        grades, draw = grades_by_others(name, sets), np.random.default_rng(0)
        best, there, halves = [], [], []
        for owner in np.unique(each.owners):
            rows, is_gone = np.flatnonzero(each.owners == owner), draw.random() < removed
            rows = rows[~each.truth[rows]] if is_gone else rows
            if len(rows):
                best.append(float(grades[rows].max()))
                there.append(bool(each.truth[rows].any()))
                halves.append(bool(each.halves[owner]))
        truth, top = np.array(there), np.array(best)
        value, low, high = interval(truth, top, np.arange(len(top)))
        print(f"{name}: {len(top)} questions; AUROC of the best grade for evidence {value:.3f} [{low:.3f}, {high:.3f}]")
        _print_thresholds(top, truth, np.array(halves))
        _print_curve(top, truth)
        _print_halvings(top, truth)


def _print_thresholds(best: Floats, there: NDArray[np.bool_], halves: NDArray[np.bool_]) -> None:
    upper = fit_upper(best[~halves].tolist(), there[~halves].tolist(), WANTED)
    if upper.threshold is None:
        print(f"  {upper.reason}")
        return
    below = fit_upper((-best[~halves]).tolist(), (~there[~halves]).tolist(), 0.5)
    lower = min(upper.threshold, -below.threshold) if below.threshold is not None else -1.0
    line = GradeThresholds(upper.threshold, lower)
    actions = [document_action(float(grade), line) for grade in best[halves]]
    print(f"  fitted on the other half: CORRECT from {line.upper:+.2f} on, INCORRECT below {line.lower:+.2f}")
    for action in ACTIONS:
        right = [bool(one) for one, taken in zip(there[halves], actions, strict=True) if taken == action]
        if right:
            low, high = wilson(sum(right), len(right), TWO_SIDED_95)
            print(f"  {action:10} {len(right):4} of {len(actions)}: evidence there in {sum(right) / len(right):.1%} "
                  f"[{low:.1%}, {high:.1%}]")  # fmt: skip


def _print_curve(best: Floats, there: NDArray[np.bool_]) -> None:
    """How often evidence is there for the questions with the best grades: what no threshold can exceed."""
    order = np.argsort(-best, kind="stable")
    counts = [max(1, round(share * len(best))) for share in CALLED]
    right = [f"{there[order[:count]].mean():.0%} of {count}" for count in counts]
    named = (f"best {share:.0%}: {one}" for share, one in zip(CALLED, right, strict=True))
    print(f"  evidence there, of the {', '.join(named)}")


def _print_halvings(best: Floats, there: NDArray[np.bool_]) -> None:
    """What half of the questions, drawn again and again, gives as threshold, and how the other half does."""
    for name, sure in (("share itself", 0.0), ("80 % interval", 1.2816), ("95 % interval", TWO_SIDED_95)):
        called, right = [], []
        for seed in range(HALVINGS):
            own = np.random.default_rng(seed).permutation(len(best)) < len(best) // 2
            threshold = _least(best[own], there[own], sure)
            trusted = best[~own] >= threshold
            if trusted.any():
                called.append(float(trusted.mean()))
                right.append(float(there[~own][trusted].mean()))
        said = f"CORRECT {statistics.fmean(called):.0%}, right {statistics.fmean(right):.1%}" if right else "never"
        print(f"  {WANTED:.0%} by the {name:13}: found in {len(right)} of {HALVINGS} halvings; {said}")


def _least(best: Floats, there: NDArray[np.bool_], sure: float) -> float:
    """The least grade from which the lower end of the share's interval reaches what is wanted; infinite for none."""
    order = np.argsort(-best, kind="stable")
    rights = there[order].cumsum()
    ends = [wilson(float(right), count, sure)[0] if sure else right / count for count, right in enumerate(rights, 1)]
    fitting = [place for place, low in enumerate(ends) if low >= WANTED and place + 1 >= FEWEST]
    return float(best[order][fitting[-1]]) if fitting else np.inf


def print_proxy(asked: Mapping[str, Sequence[Asked]], sets: Mapping[str, Judged]) -> None:
    """How often the proxy reference holds evidence by words alone, and with the grades of a judge that other sets
    fitted: of the questions whose evidence BM25 finds."""
    print(
        "\nproxy reference   questions   each class holds evidence, its chunks are evidence: words; with grades; more"
    )
    for name, each in sets.items():
        shares = (grades_by_others(name, sets) + 1) / 2
        found: list[tuple[float, ...]] = []
        for owner, one in enumerate(asked[name]):
            rows = np.flatnonzero(each.owners == owner)[: len(one.scores)]
            truth = each.truth[rows]
            assert truth.tolist() == list(one.is_relevant[: len(rows)]), "the features are of other questions"
            if truth.any():
                known = {str(at): float(share) for at, share in enumerate(shares[rows])}
                found.append((*_of_proxy(one, truth, None), *_of_proxy(one, truth, known)))
        table = np.array(found)
        draws = table[np.random.default_rng(0).integers(len(table), size=(DRAWS, len(table)))].mean(axis=1)
        low, high = np.percentile(draws[:, 2] - draws[:, 0], [2.5, 97.5])
        mean = table.mean(axis=0)
        print(
            f"{name:22} {len(table):4}   {mean[0]:.1%}, {mean[1]:.1%};  {mean[2]:.1%}, {mean[3]:.1%};"
            f"  {100 * (mean[2] - mean[0]):+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]",
            flush=True,
        )


def _of_proxy(one: Asked, truth: NDArray[np.bool_], relevance: Mapping[str, float] | None) -> tuple[float, float]:
    """Whether each class holds evidence, and the share of evidence among all chunks of the reference."""
    candidates = [
        Candidate(chunk_id=str(at), rank=at + 1, text=text, score=score)
        for at, (text, score) in enumerate(zip(one.texts, one.scores, strict=False))
    ]
    classes = proxy_classes(one.question, extract_facets(one.question), candidates, relevance=relevance)
    members = sorted({int(key) for keys in classes for key in keys})
    is_held = bool(classes) and all(any(truth[int(key)] for key in keys) for keys in classes)
    return float(is_held), float(truth[members].mean()) if members else 0.0


def print_cost(rounds: int = 5) -> None:
    """Processor seconds of one core for requests with texts that were never read before: of the judge, and of the whole
    analysis with all claims by words; and the most memory that the process took."""
    draw = random.Random(0)
    words = [word for each in questions("clapnq") for word in each.texts[0].split()]
    models = Models(relevance=BuiltinRelevance.load())
    seconds: list[tuple[float, float]] = []
    for round_ in range(rounds + 1):
        texts = [" ".join(_drawn(words, 100, draw)) for _ in range(CANDIDATES)]
        claims = [" ".join(_drawn(text.split(), 20, draw)).replace(".", ",") for text in texts[:CLAIMS]]
        record = _recorded(f"What is said of {words[round_]} and {words[-round_ - 1]}?", texts, ". ".join(claims) + ".")
        began = time.process_time()
        said = judge_records({record.request_id: record}, models)[record.request_id]
        by_judge = time.process_time() - began
        examine(record, relevances=said.relevances, nearness=said.nearness, verified_by=said.by)
        seconds.append((by_judge, time.process_time() - began))
    for what, each in zip(("the judge", "the whole analysis"), zip(*seconds[1:], strict=True), strict=True):
        print(f"{CLAIMS} claims, {CANDIDATES} candidates of 100 words, {what}: {statistics.median(each):.2f} s of one "
              f"core, at most {max(each):.2f} s")  # fmt: skip
    print(f"the process took {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


def _drawn(words: Sequence[str], count: int, draw: random.Random) -> Sequence[str]:
    start = draw.randrange(len(words) - count + 1)
    return words[start : start + count]


def _recorded(question: str, texts: Sequence[str], answer: str) -> RequestRecord:
    """A request of which eight chunks were packed."""
    candidates = tuple(Candidate(chunk_id=f"c{at}", rank=at, text=text) for at, text in enumerate(texts, 1))
    packed = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=text) for at, text in enumerate(texts[:8], 1))
    stages = (
        RetrieveRun(query=question, candidates=candidates),
        PackRun(packing=Packing(chunks=packed)),
        GenerateRun(generation=Generation(answer=answer)),
    )
    return RequestRecord(request_id="r", service="s", query=Query(original=question), stages=stages)


def _read_or_judge(names: Sequence[str], most: int, file: Path | None) -> dict[str, Judged]:
    if file is not None and file.exists():
        with np.load(file) as known:
            return {name: Judged(*(known[f"{name} {part}"] for part in Judged.__slots__)) for name in names}
    judge = BuiltinRelevance.load()
    sets = {}
    for name in names:
        sets[name] = judged(some(name, most), judge)
        print(f"read {name}", file=sys.stderr, flush=True)
    if file is not None:
        arrays: dict[str, Any] = {
            f"{name} {part}": getattr(each, part) for name, each in sets.items() for part in Judged.__slots__
        }
        np.savez(file, **arrays)
    return sets


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=[*OPEN, *UNSEEN])
    parser.add_argument("--questions", type=int, default=MOST, help="of each set, at most")
    parser.add_argument("--features", type=Path, help="keeps what was computed of the pairs (.npz)")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--removed", type=float, nargs="*", default=[0.3, 0.5])
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    if given.cost:
        with torch_threads(1):
            print_cost()
        return 0
    sets = _read_or_judge(given.sets, given.questions, given.features)
    if given.fit:
        weights, offsets = fit([sets[name] for name in OPEN])
        print({name: round(float(weight), 2) for name, weight in zip(FEATURES, weights, strict=True)})
        print(f"offsets {offsets.round(2).tolist()}, mean {offsets.mean():.2f}")
    print_ranking(sets)
    for removed in given.removed:
        print_actions(sets, removed)
    if given.proxy:
        print_proxy({name: some(name, given.questions) for name in sets}, sets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
