"""Names of spans and span attributes, vendored: OpenTelemetry's GenAI conventions where they have one, else our own.

Source: OpenTelemetry semantic-conventions-genai (status: development). Content attributes are left out on purpose:
texts stay in the record.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANSWER_LENGTH",
    "FINISH_REASONS",
    "INPUT_TOKENS",
    "OPERATION_NAME",
    "OUTPUT_TOKENS",
    "PACK_BUDGET",
    "PACK_DROPPED_IDS",
    "PACK_DROPPED_REASONS",
    "PACK_IDS",
    "PACK_TOKENS",
    "PACK_TRUNCATED_IDS",
    "REQUEST_FLAGS",
    "REQUEST_HEAD_PROBABILITY",
    "REQUEST_HEAD_SAMPLED",
    "REQUEST_ID",
    "REQUEST_MODEL",
    "REQUEST_QUERY_CLASS",
    "REQUEST_SEGMENT",
    "REQUEST_SERVICE",
    "RERANK_DROPPED_IDS",
    "RERANK_IDS",
    "RERANK_INPUT_COUNT",
    "RERANK_RANKS_BEFORE",
    "RERANK_SCORES",
    "RETRIEVAL_DATA_SOURCE",
    "RETRIEVAL_DOCUMENTS",
    "RETRIEVAL_IDS",
    "RETRIEVAL_SCORES",
    "RETRIEVAL_TOP_K",
    "SESSION_ID",
    "TRACER",
    "VERSION",
]

TRACER: Final = "ragtrace"

# OpenTelemetry GenAI
OPERATION_NAME: Final = "gen_ai.operation.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RETRIEVAL_DATA_SOURCE: Final = "gen_ai.data_source.id"
RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"  # one JSON value: [{"id": …, "score": …}]
SESSION_ID: Final = "session.id"

# ragtrace's own; parallel arrays, which an attribute length limit cuts per element and leaves valid
RETRIEVAL_IDS: Final = "ragtrace.retrieval.document.ids"
RETRIEVAL_SCORES: Final = "ragtrace.retrieval.document.scores"
RERANK_INPUT_COUNT: Final = "ragtrace.rerank.input_count"
RERANK_IDS: Final = "ragtrace.rerank.document.ids"
RERANK_SCORES: Final = "ragtrace.rerank.document.scores"
RERANK_RANKS_BEFORE: Final = "ragtrace.rerank.document.ranks_before"  # 0: was not among the inputs
RERANK_DROPPED_IDS: Final = "ragtrace.rerank.dropped.ids"
PACK_IDS: Final = "ragtrace.pack.document.ids"
PACK_TOKENS: Final = "ragtrace.pack.tokens"
PACK_BUDGET: Final = "ragtrace.pack.budget_tokens"
PACK_TRUNCATED_IDS: Final = "ragtrace.pack.truncated.ids"
PACK_DROPPED_IDS: Final = "ragtrace.pack.dropped.ids"
PACK_DROPPED_REASONS: Final = "ragtrace.pack.dropped.reasons"
ANSWER_LENGTH: Final = "ragtrace.generate.answer_length"
REQUEST_ID: Final = "ragtrace.request.id"
REQUEST_SERVICE: Final = "ragtrace.service"
REQUEST_SEGMENT: Final = "ragtrace.segment"
REQUEST_QUERY_CLASS: Final = "ragtrace.query.class"
REQUEST_FLAGS: Final = "ragtrace.flags"
REQUEST_HEAD_SAMPLED: Final = "ragtrace.head_sampled"
REQUEST_HEAD_PROBABILITY: Final = "ragtrace.head_probability"
VERSION: Final = "ragtrace.version"  # + "." + component
