"""What the retriever was given: one query, or several where a question was taken apart or asked in other words too."""

from __future__ import annotations

from ragtrace.types import RequestRecord, RetrieveRun

__all__ = ["query_number", "retrieval_queries"]


def retrieval_queries(record: RequestRecord) -> tuple[str, ...]:
    """The distinct queries of the retrieve runs, in their order; where none was recorded, the rewritten or the original
    one."""
    runs = (run.query for run in record.stages if isinstance(run, RetrieveRun))
    asked = dict.fromkeys(query for query in runs if query and query.strip())
    return tuple(asked) or (record.query.rewritten or record.query.original,)


def query_number(record: RequestRecord, chunk_id: str) -> int:
    """Which of these queries found a chunk at its best rank, the first of equals; 0 where that is not known."""
    found = [
        (candidate.rank, run.query)
        for run in record.stages
        if isinstance(run, RetrieveRun)
        for candidate in run.candidates
        if candidate.chunk_id == chunk_id
    ]
    query = min(found, key=lambda each: each[0])[1] if found else None
    queries = retrieval_queries(record)
    return queries.index(query) if query in queries else 0
