"""What is said of an answer does not depend on the order in which a process goes through its sets."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from ragtrace.coverage import judge_claims
from ragtrace.coverage.support import Evidence, Statement
from ragtrace.coverage.support.readings import Vocabulary, containment, rarities_of
from ragtrace.types import Claim, PackedChunk

WORDS = (
    "weir spillway keeper inspector turnover breach sluice leak owner gate height water crown manual winter barge "
    "anchor timber quarry harvest orchard meadow furnace copper lantern ferry harbor tunnel bridge canal pump valve"
).split()
TEXTS = [" ".join(WORDS[at:]) + "." for at in range(len(WORDS))]
vocabulary = Vocabulary(Evidence.read(str(at), text) for at, text in enumerate(TEXTS))
for at in range(len(WORDS) - 8):
    statement = Statement.read(Claim(start=0, end=1, text=" ".join(WORDS[at:])))
    print(repr(containment(statement, frozenset(WORDS[:-1]), rarities_of(statement, vocabulary))))
packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(TEXTS, start=1)]
for claim in judge_claims("The keeper pays half of the mending of the sluice. " + TEXTS[3], packed[:6])[0]:
    print(repr(claim))
"""


def test_two_processes_say_the_same_to_the_last_bit() -> None:
    """Rarities of words are added up in any order: the sums are exact, so that an analysis can be repeated."""
    first, second = _said("1"), _said("2")
    assert first == second
    assert first.count("\n") > 20


def _said(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stdout
