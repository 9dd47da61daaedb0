"""A store with the requests of two tenants: one is contradicted, one lost what it needs, one is explained, and one
holds what somebody hostile would put into every field."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ragtrace.analyze import analyze_record
from ragtrace.analyze.explainer import ATTRIBUTION_VERSION
from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    DroppedChunk,
    ErrorInfo,
    Facet,
    Feedback,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    replace,
)
from tests.export import explained
from tests.web.gated import add_gate

__all__ = [
    "ALTERED",
    "EVIL",
    "EXPLAINED",
    "HOSTILE",
    "LARGE",
    "LONG",
    "LOST",
    "OTHER",
    "SECRET",
    "SERVICE",
    "large",
    "request",
    "store_of",
]

SERVICE: Final = "acme/shop"
ALTERED, LOST, HOSTILE, OTHER = "acme:altered", "acme:lost", "acme:hostile", "rival:one"
LARGE: Final = "acme:large"
EXPLAINED: Final = explained.record().request_id
SECRET: Final = "Rival's secret is 4711."
EVIL: Final = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202eevil\u2066 {{ 7*7 }} javascript:alert(3)"
)
LONG: Final = 5_000_000
_AT: Final = 1_770_000_000_000_000_000
_TEXTS: Final = {
    "ie#limit": "Home, Ireland, edition 4.0: Limits\nThe most we pay for escape of water is EUR 19,500 for each event.",
    "gb#limit": "Home, United Kingdom, edition 4.0: Limits\nThe most we pay for theft is GBP 4,000 for each event.",
    "ie#exception": "Home, Ireland, edition 4.0: Exceptions\nNothing is paid when nobody lived there for 30 days.",
}


def request(request_id: str, answer: str, packed: tuple[str, ...], **fields: object) -> RequestRecord:
    """A request about the limits, with these of their chunks in its prompt."""
    ranks = list(_TEXTS)
    moves = [*packed, *(name for name in ranks if name not in packed)]
    record = RequestRecord(
        request_id=request_id,
        service=SERVICE,
        tenant_id="acme",
        segment="limit",
        started_at=_AT,
        ended_at=_AT + 40_000_000,
        versions={"index": "i-1"},
        query=Query(original="What is the most paid for escape of water in Ireland?"),
        stages=(
            RetrieveRun(
                started_at=_AT,
                ended_at=_AT + 10_000_000,
                candidates=tuple(
                    Candidate(chunk_id=name, rank=rank, score=1 / rank, text=_TEXTS[name])
                    for rank, name in enumerate(ranks, 1)
                ),
            ),
            RerankRun(
                started_at=_AT + 10_000_000,
                ended_at=_AT + 12_000_000,
                moves=tuple(
                    RankMove(chunk_id=name, rank_before=ranks.index(name) + 1, rank_after=rank)
                    for rank, name in enumerate(moves, 1)
                ),
            ),
            PackRun(
                started_at=_AT + 12_000_000,
                ended_at=_AT + 13_000_000,
                packing=Packing(
                    chunks=tuple(
                        PackedChunk(chunk_id=name, position=place, tokens=20, text=_TEXTS[name])
                        for place, name in enumerate(packed, 1)
                    ),
                    dropped=tuple(DroppedChunk(chunk_id=n, reason="budget") for n in ranks if n not in packed),
                    budget_tokens=40,
                ),
            ),
            GenerateRun(started_at=_AT + 13_000_000, ended_at=_AT + 40_000_000, generation=Generation(answer=answer)),
        ),
    )
    return replace(record, **fields)


def _hostile() -> RequestRecord:
    """The same words in every field that a page shows, and a line of five megabytes."""
    huge = EVIL + "x" * LONG
    return RequestRecord(
        request_id=HOSTILE,
        service=SERVICE,
        tenant_id="acme",
        segment=EVIL,
        session_id=EVIL,
        status="error",
        error=ErrorInfo(type=EVIL, message=EVIL),
        started_at=_AT + 1,
        ended_at=_AT + 2,
        versions={EVIL: EVIL},
        flags=(EVIL,),
        query=Query(original=EVIL, rewritten=EVIL, facets=(Facet(kind="custom", value=EVIL),)),
        stages=(
            RetrieveRun(
                name=EVIL,
                ended_at=_AT + 2,
                candidates=(Candidate(chunk_id=EVIL, rank=1, text=EVIL), Candidate(chunk_id="huge", rank=2, text=huge)),
            ),
            PackRun(
                packing=Packing(
                    chunks=(PackedChunk(chunk_id=EVIL, position=1, text=EVIL),),
                    dropped=(DroppedChunk(chunk_id="huge", reason=EVIL),),
                )
            ),
            GenerateRun(generation=Generation(answer=EVIL, model=EVIL)),
        ),
        feedback=(Feedback(request_id=HOSTILE, label=EVIL, source=EVIL, comment=EVIL, feedback_id="f"),),
    )


def large() -> RequestRecord:
    """200 candidates, of which 40 are in the prompt, and an answer of 100 claims."""
    texts = {f"c{n}": f"Part {n}: the limit of tariff {n} is EUR {n * 17 + 3} for each event." for n in range(200)}
    packed = tuple(texts)[:40]
    answer = " ".join(f"The limit of tariff {n} is EUR {n * 17 + 3} for each event [{n + 1}]." for n in range(100))
    return RequestRecord(
        request_id=LARGE,
        service="acme/tariffs",
        tenant_id="acme",
        segment="limit",
        started_at=_AT + 20,
        ended_at=_AT + 21,
        query=Query(original="What are the limits of all tariffs?"),
        stages=(
            RetrieveRun(
                candidates=tuple(
                    Candidate(chunk_id=name, rank=rank, score=1 / rank, text=text)
                    for rank, (name, text) in enumerate(texts.items(), 1)
                )
            ),
            PackRun(
                packing=Packing(
                    chunks=tuple(
                        PackedChunk(chunk_id=name, position=place, text=texts[name])
                        for place, name in enumerate(packed, 1)
                    )
                )
            ),
            GenerateRun(generation=Generation(answer=answer)),
        ),
    )


def store_of(folder: Path) -> str:
    """The URL of the store."""
    url = f"sqlite:///{folder / 'pages.db'}"
    wrong = "The most we pay for escape of water in Ireland is EUR 91,500 for each event [1]."
    right = "The most we pay for theft is GBP 4,000 for each event [1]."
    records = [
        request(ALTERED, wrong, ("ie#limit", "gb#limit")),
        request(LOST, right, ("gb#limit", "ie#exception"), started_at=_AT + 5),
        _hostile(),
        request(OTHER, SECRET, ("gb#limit",), service="rival/bank", tenant_id="rival", started_at=_AT + 9),
        explained.record(),
    ]
    gold = Gold(
        service=SERVICE, question="What is the most paid for escape of water in Ireland?", chunk_ids=("ie#limit",)
    )
    with Store.open(url) as store:
        store.write(records)
        by_id = {record.request_id: record for record in records}
        follow_up = FollowUp(ATTRIBUTION, "a-1", flagged=False)
        for job in store.claim("test", limit=10):
            record = by_id[job.request_id]
            small = record if job.request_id != HOSTILE else replace(record, stages=record.stages[1:])
            analysis = analyze_record(small, gold if job.request_id in (ALTERED, LOST) else None)
            wanted = follow_up if job.request_id == EXPLAINED else None
            store.finish([Finished(job, analysis, (), wanted)])
        for job in store.claim("test", kinds=(ATTRIBUTION,)):
            found = Analysis(
                request_id=job.request_id, analyzer_version="a-1", kind=ATTRIBUTION, explanation=explained.explanation()
            )
            store.finish([Finished(job, found)])
        store.ask(LOST, ATTRIBUTION, ATTRIBUTION_VERSION)
        add_gate(store, EVIL)
    return url
