"""How many derived figures of sound answers are seen to be computed, and how many wrong figures pass for such.

The sound answers of the domains written by hand are compared with their evidence alone. Each figure of a claim is
asked for its origin; then random figures of the same shape stand in its place, a tenth or more from it, that neither
the evidence nor the question has, and these are asked as well.

Usage: python bench/figures.py [--domains NAME ...] [--examples N]
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.verdicts.handwritten import read_domains
from ragtrace.coverage import split_claims
from ragtrace.coverage.support.lexical import Ground
from ragtrace.coverage.support.readings import Reading, Statement
from ragtrace.coverage.values import Value, values
from ragtrace.types import Claim

WRONG = 5  # random figures for each right one
APART = 0.1
_MARK = re.compile(r"\s*\{[^}]*\}")


class Asked(NamedTuple):
    """A figure of a claim, and where it is taken to come from."""

    origin: str
    written: str
    claim: str


def read_claims(names: Sequence[str]) -> Iterator[tuple[Ground, Statement, str]]:
    """The claims of all sound answers, each with its evidence and the whole answer."""
    for domain in read_domains(names=names):
        for question in domain.questions:
            texts = [
                domain.passages[each].chunk for each in sorted({each for group in question.evidence for each in group})
            ]
            if not texts:
                continue
            ground = Ground([Reading(text) for text in texts], Reading(question.question))
            for answer in question.answers:
                whole = _MARK.sub("", answer)
                yield from ((ground, Statement.read(claim), whole) for claim in split_claims(whole) if claim.factual)


def origin_of(ground: Ground, statement: Statement, value: Value, answer: str) -> str:
    """Where a figure of a claim comes from, the rest of the answer known."""
    if (origin := ground.origin(value, statement)) not in ("unknown", "unproven"):
        return origin
    return ground.figures.origin(value, statement.placed.text, answer)


def ask(ground: Ground, statement: Statement, answer: str) -> Iterator[tuple[Value, Asked]]:
    """Each figure in digits, no date and no part of a name."""
    for value in statement.stated:
        if value.raw[:1].isdigit() and value.kind in ("quantity", "number"):
            yield value, Asked(origin_of(ground, statement, value, answer), value.raw, statement.placed.text)


def wrong_ones(
    ground: Ground, statement: Statement, value: Value, answer: str, chance: random.Random
) -> Iterator[Asked]:
    """The same claim with random figures of the same shape in the place of one."""
    text = statement.placed.text
    for _ in range(WRONG):
        digits = re.sub(r"\d", lambda match: chance.choice("0123456789"), value.raw)
        written = re.sub(r"^0+(?=\d)", lambda match: "9" * len(match.group()), digits)
        altered = text[: value.start] + written + text[value.start + len(value.raw) :]
        other = next((each for each in values(altered) if each.start == value.start and each.kind == value.kind), None)
        if other is None or abs(other.number - value.number) <= APART * abs(value.number):
            continue
        asked = Statement.read(Claim(text=altered, start=0, end=len(altered)))
        if (origin := origin_of(ground, asked, other, answer.replace(text, altered))) != "asked" and not _written(
            ground, other
        ):
            yield Asked(origin, other.raw, altered)


def _written(ground: Ground, value: Value) -> bool:
    return any(each.number == value.number for part in ground._parts for each in part.values)


def main() -> None:
    """Print how often each origin is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", default=(), metavar="NAME", help="names of domains; by default all")
    parser.add_argument("--examples", type=int, default=0, help="right figures of unknown origin to show")
    options = parser.parse_args()
    right, wrong, shown = Counter[str](), Counter[str](), 0
    chance = random.Random(0)
    for ground, statement, answer in read_claims(options.domains):
        for value, asked in ask(ground, statement, answer):
            right[asked.origin] += 1
            if asked.origin == "unknown" and shown < options.examples:
                shown += 1
                print(f"unknown: {asked.written} in “{asked.claim}”")
            if asked.origin in ("stated", "computed"):
                wrong.update(each.origin for each in wrong_ones(ground, statement, value, answer, chance))
    for name, counted in (("right", right), ("wrong", wrong)):
        shares = ", ".join(f"{each} {n} ({100 * n / counted.total():.1f} %)" for each, n in sorted(counted.items()))
        print(f"{name}: {shares}")


if __name__ == "__main__":
    main()
