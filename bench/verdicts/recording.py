"""The record of a path, as ragtrace would have written it of an application that went this way."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.verdicts.model import GHOST, Domain, Hit, Path
from bench.verdicts.pipeline import MARK
from ragtrace.prompts import escaped, placeholder
from ragtrace.record.coercion import Known, placed, take_packing
from ragtrace.types import (
    Candidate,
    Facet,
    FacetKind,
    GenerateRun,
    Generation,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
    StageRun,
    content_hash,
    replace,
)

__all__ = ["SERVICE", "answer_text", "facets_of", "metadata_of", "packing_of", "prompt_of", "queries_of", "record_of"]

SERVICE: Final = "verdict-bench"
STARTED_AT: Final = 1_760_000_000_000_000_000  # 2025-10-09, so that "last year" means the same in every run
_MILLISECOND: Final = 1_000_000
_KINDS: Final[Mapping[str, FacetKind]] = {
    "entity": "entity",
    "date": "time",
    "time": "time",
    "jurisdiction": "jurisdiction",
    "version": "version",
    "quantity": "quantity",
}
_PROMPT: Final = "Answer the question from the passages below.\n\n{passages}\n\nQuestion: {question}\nAnswer:"


def record_of(path: Path, domain: Domain) -> RequestRecord:
    """The record; the same path has the same one, its id and its clock included."""
    clock = _Clock()
    runs: list[StageRun] = []
    for query, hits in zip(queries_of(path), (*path.earlier, path.candidates), strict=True):
        found = _candidates(path, domain, hits)
        runs.append(RetrieveRun(name="search", query=query, top_k=path.setup.depth, candidates=found, **clock.run(40)))
    if path.reranked is not None:
        runs.append(RerankRun(name="rerank", moves=_moves(path), **clock.run(25)))
    runs.append(PackRun(name="pack", packing=_packing(path, found), **clock.run(2)))
    answer = answer_text(path, domain)
    generation = Generation(
        answer=answer,
        answer_hash=content_hash(answer),
        prompt_template=_template(path),
        model=path.versions.get("model"),
    )
    runs.append(GenerateRun(name="answer", generation=generation, **clock.run(900)))
    return RequestRecord(
        request_id=_request_id(path),
        service=SERVICE,
        started_at=STARTED_AT,
        ended_at=clock.now,
        query=Query(original=path.question.question, rewritten=path.rewritten, facets=facets_of(path)),
        versions=dict(path.versions),
        cites=path.setup.cites,
        stages=tuple(runs),
    )


def answer_text(path: Path, domain: Domain) -> str:
    """The answer with `[n]` for the marks of a service that cites, where the passage is the n-th of the prompt, and
    without marks otherwise. A mark of what is in no prompt (`GHOST`) has a number behind those of the prompt."""
    numbers = {each.id: number for number, each in enumerate(path.packed, 1)}
    numbers |= {f"{GHOST}{number}": len(path.packed) + number for number in range(1, 10)}

    def written(mark: re.Match[str]) -> str:
        if mark[1] not in domain.passages and not mark[1].startswith(GHOST):
            return mark[0]
        space = "" if mark[0].startswith("{") else " "
        return f"{space}[{numbers[mark[1]]}]" if path.setup.cites and mark[1] in numbers else ""

    return MARK.sub(written, path.answer)


def queries_of(path: Path) -> list[str]:
    """What the retriever was given in each round: the rewrite last, before it the question."""
    last = path.rewritten or path.question.question
    return [*[path.question.question] * len(path.earlier), last]


def metadata_of(path: Path, domain: Domain, passage_id: str) -> dict[str, Any]:
    """What a candidate says of itself where the application keeps metadata."""
    if not path.setup.metadata:
        return {}
    title = domain.passages[passage_id].title
    return {"source": f"{domain.name}/{passage_id}", **({"title": title} if title else {})}


def packing_of(path: Path) -> dict[str, Any]:
    """What the packer of the application returns."""
    chunks = [
        {"id": each.id, "text": each.text, **({"truncated": True} if each.truncated else {})} for each in path.packed
    ]
    return {"chunks": chunks, "dropped": list(path.dropped.items())}


def prompt_of(path: Path) -> str:
    """What the model was given."""
    return _filled(path, [each.text for each in path.packed], path.question.question)


def facets_of(path: Path) -> tuple[Facet, ...]:
    """What a careful host passes, where the application has one."""
    facets = path.question.facets if path.setup.facets else ()
    return tuple(Facet(kind=_KINDS.get(facet.kind, "custom"), value=facet.value) for facet in facets)


class _Clock:
    """Runs one after the other, as a record has them."""

    def __init__(self) -> None:
        self.now = STARTED_AT

    def run(self, milliseconds: int) -> dict[str, Any]:
        started, self.now = self.now, self.now + milliseconds * _MILLISECOND
        return {"started_at": started, "ended_at": self.now}


def _candidates(path: Path, domain: Domain, hits: Sequence[Hit]) -> tuple[Candidate, ...]:
    found = []
    for rank, hit in enumerate(hits, 1):
        metadata, text = metadata_of(path, domain, hit.id), domain.passages[hit.id].chunk
        found.append(
            Candidate(
                chunk_id=hit.id,
                rank=rank,
                score=hit.score if path.setup.scores else None,
                source=metadata.get("source"),
                metadata=metadata,
                content_hash=content_hash(text),
                text=text,
            )
        )
    return tuple(found)


def _moves(path: Path) -> tuple[RankMove, ...]:
    before = {hit.id: rank for rank, hit in enumerate(path.candidates, 1)}
    after = {hit.id: (rank, hit.score) for rank, hit in enumerate(path.reranked or (), 1)}
    kept = [
        RankMove(chunk_id=name, rank_before=before.get(name), rank_after=rank, score=score)
        for name, (rank, score) in after.items()
    ]
    return (*kept, *(RankMove(chunk_id=name, rank_before=rank) for name, rank in before.items() if name not in after))


def _packing(path: Path, found: Sequence[Candidate]) -> Packing:
    known = Known(found)
    inputs = [hit.id for hit in (path.reranked if path.reranked is not None else path.candidates)]
    packing = placed(take_packing(packing_of(path)), known, inputs, None).packing
    chunks = (replace(chunk, content_hash=content_hash(chunk.text or "")) for chunk in packing.chunks)
    return replace(packing, chunks=tuple(chunks))


def _template(path: Path) -> str:
    return _filled(path, [placeholder(each.id) for each in path.packed], escaped(path.question.question))


def _filled(path: Path, bodies: Sequence[str], question: str) -> str:
    passages = "\n\n".join(f"[{number}] {body}" for number, body in enumerate(bodies, 1))
    return _PROMPT.format(passages=passages, question=question)


def _request_id(path: Path) -> str:
    said = (path.domain, path.question.id, repr(path.setup), repr(path.packed), repr(path.candidates), path.answer)
    return hashlib.blake2b("\0".join(said).encode(), digest_size=16).hexdigest()
