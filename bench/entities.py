"""Whether grades of the built-in judge rest on names that question and document share, on public data.

    python bench/entities.py --upper 0.85 --lower -0.01 --budget 64

Questions of CLAP-NQ and MTRAG with the ten passages that BM25 finds; of half of the questions the evidence is taken
away. The candidate with the best grade decides the action. Of each action so many requests whose question has a name
are explained, and a name that both sides have is exchanged, as `ragtrace grade entities` does with a service's
requests; intervals are 95 % bootstrap intervals over requests. RAGTRACE_BENCH_DATA names the folder of the data sets.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.builtin_relevance import questions
from ragtrace.analyze.grade_attribution import GradedPair, alignment_report, names_of
from ragtrace.coverage.verifier import RelevanceJudge
from ragtrace.engines._builtin_relevance import BuiltinRelevance
from ragtrace.engines.models import torch_threads
from ragtrace.grading import ACTIONS, GradeThresholds, document_action, grade_of

SETS = ("clapnq", "mtrag")
REMOVED = 0.5


def deciding(judge: RelevanceJudge, thresholds: GradeThresholds, each: int) -> list[GradedPair]:
    """Up to `each` requests of every action whose question has a name, the sets in turn, with what decides them."""
    found, counts = list[GradedPair](), Counter[str]()
    for question, texts in alternating():
        if min(counts[action] for action in ACTIONS) >= each:
            break
        if not names_of(question):
            continue
        grades = [grade_of(share) for share in judge.relevant([(question, text) for text in texts])]
        best = max(range(len(texts)), key=grades.__getitem__)
        action = document_action(grades[best], thresholds)
        if counts[action] < each:
            counts[action] += 1
            found.append(GradedPair(question, texts[best], grades[best], action))
    return found


def alternating() -> Iterator[tuple[str, Sequence[str]]]:
    """Questions with the texts of their candidates, without the evidence of half of them."""
    draw, sets = random.Random(0), [questions(name) for name in SETS]
    while sets:
        for asked in list(sets):
            one = next(asked, None)
            if one is None:
                sets.remove(asked)
                continue
            is_gone = draw.random() < REMOVED
            pairs = zip(one.texts, one.is_relevant, strict=True)
            texts = [text for text, relevant in pairs if text.strip() and not (relevant and is_gone)]
            if texts:
                yield one.question, texts


def main() -> None:
    """Reads the command, and prints the report as `ragtrace grade entities` does."""
    from ragtrace.cli.grade import print_alignment

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--upper", type=float, default=0.85)
    options.add_argument("--lower", type=float, default=-0.01)
    options.add_argument("--each", type=int, default=50, help="requests of each action")
    options.add_argument("--budget", type=int, default=128, help="grades for one explanation, about")
    given = options.parse_args()
    thresholds, judge = GradeThresholds(given.upper, given.lower), BuiltinRelevance.load()
    with torch_threads(1):
        pairs = deciding(judge, thresholds, given.each)
        print(dict(Counter(pair.action for pair in pairs)), file=sys.stderr, flush=True)
        print_alignment(alignment_report(pairs, judge, thresholds, budget=given.budget))


if __name__ == "__main__":
    main()
