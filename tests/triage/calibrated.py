"""A service that answers what cards cost, whose ranking a release can break in a known share of its requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

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

SERVICE: Final = "cards"
SECOND: Final = 10**9
START: Final = 1_700_000_000 * SECOND
MINUTE: Final = 60 * SECOND
PACKED: Final = 3
_NAMES: Final = (
    "amber", "basalt", "cobalt", "delta", "ember", "falcon", "garnet", "harbor", "indigo", "jasper",
    "kestrel", "lagoon", "meadow", "nectar", "orchid", "pepper", "quartz", "raven", "saffron", "tundra",
)  # fmt: skip
_MATTERS: Final = (
    ("annual fee", "The annual fee of the {name} card is {value} euros, charged in advance each January.", "euros"),
    ("daily limit", "Withdrawals with the {name} card have a daily limit of {value} euros at any machine.", "euros"),
    ("replacement time", "A lost {name} card has a replacement time of {value} days by registered mail.", "days"),
    ("insurance cover", "Travel with the {name} card has an insurance cover of {value} thousand dollars.", "dollars"),
)
FACTS: Final = [
    (name, matter, text.format(name=name, value=11 + 7 * place), 11 + 7 * place, unit)
    for place, (name, (matter, text, unit)) in enumerate((n, m) for m in _MATTERS for n in _NAMES)
]


def requests(
    count: int, *, start: int = START, version: str = "r-1", broken: float = 0.0, seed: int = 0
) -> Iterator[RequestRecord]:
    """One request a minute; in a share of them the evidence stays outside of the prompt, and the answer is of another
    card."""
    chance = random.Random(f"{seed}:{version}")
    for number in range(count):
        yield _request(start + number * MINUTE, version, chance, is_broken=chance.random() < broken)


def _request(at: int, version: str, chance: random.Random, *, is_broken: bool) -> RequestRecord:
    name, matter, text, _, _ = fact = chance.choice(FACTS)
    others = chance.sample([each for each in FACTS if each[0] != name and each[1] != matter], 2)
    near = chance.sample([each for each in FACTS if each[0] == name and each[1] != matter], 3)
    pool = [fact, *near, *others]
    kept = near if is_broken else pool[:PACKED]
    candidates = tuple(
        Candidate(chunk_id=f"{each[0]}-{each[1]}", rank=rank, text=each[2], score=1.0 / rank)
        for rank, each in enumerate(pool, 1)
    )
    chunks = tuple(
        PackedChunk(chunk_id=f"{each[0]}-{each[1]}", position=place, text=each[2]) for place, each in enumerate(kept, 1)
    )
    answer = f"{kept[0][2].rstrip('.')} [1]." if is_broken else f"{text.rstrip('.')} [1]."
    return RequestRecord(
        request_id=f"{version}:{at // SECOND}:{'broken' if is_broken else 'sound'}",
        service=SERVICE,
        started_at=at,
        ended_at=at + SECOND,
        query=Query(original=f"What is the {matter} of the {name} card?"),
        versions={"reranker": version},
        stages=(
            RetrieveRun(candidates=candidates, started_at=at, ended_at=at + 1),
            PackRun(packing=Packing(chunks=chunks), started_at=at + 2, ended_at=at + 3),
            GenerateRun(generation=Generation(answer=answer), started_at=at + 4, ended_at=at + 5),
        ),
    )
