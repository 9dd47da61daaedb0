"""Names of spans, attributes and events, vendored: OpenTelemetry's GenAI conventions, OpenInference, and our own.

Source: OpenTelemetry semantic-conventions-genai (status: development); OpenInference's semantic conventions.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ANALYZER_VERSION",
    "ANSWER_LENGTH",
    "CITES",
    "COMPLETION_TOKENS",
    "DOCUMENTS",
    "DOCUMENTS_LEFT_OUT",
    "DOCUMENT_CONTENT",
    "DOCUMENT_ID",
    "DOCUMENT_METADATA",
    "DOCUMENT_SCORE",
    "EVALUATION_EVENT",
    "EVALUATION_EXPLANATION",
    "EVALUATION_LABEL",
    "EVALUATION_NAME",
    "EVALUATION_VALUE",
    "EXCEPTION_EVENT",
    "EXCEPTION_MESSAGE",
    "EXCEPTION_TYPE",
    "FINISH_REASONS",
    "GEN_AI",
    "INPUT_MESSAGES",
    "INPUT_TOKENS",
    "INPUT_TYPE",
    "INPUT_VALUE",
    "LLM_INPUT",
    "LLM_MODEL",
    "LLM_OUTPUT",
    "MESSAGE_CONTENT",
    "MESSAGE_ROLE",
    "OPERATION_NAME",
    "OUTPUT_MESSAGES",
    "OUTPUT_TOKENS",
    "OUTPUT_TYPE",
    "OUTPUT_VALUE",
    "PACK_BUDGET",
    "PACK_DROPPED_IDS",
    "PACK_DROPPED_REASONS",
    "PACK_IDS",
    "PACK_TOKENS",
    "PACK_TRUNCATED_IDS",
    "PROMPT_TOKENS",
    "REFERENCE",
    "REQUEST_FLAGS",
    "REQUEST_HEAD_PROBABILITY",
    "REQUEST_HEAD_SAMPLED",
    "REQUEST_ID",
    "REQUEST_MODEL",
    "REQUEST_QUERY_CLASS",
    "REQUEST_SEGMENT",
    "REQUEST_SERVICE",
    "RERANKER_INPUTS",
    "RERANKER_MODEL",
    "RERANKER_OUTPUTS",
    "RERANKER_QUERY",
    "RERANKER_TOP_K",
    "RERANK_DROPPED_IDS",
    "RERANK_IDS",
    "RERANK_INPUT_COUNT",
    "RERANK_RANKS_BEFORE",
    "RERANK_SCORES",
    "RETRIEVAL_DATA_SOURCE",
    "RETRIEVAL_DOCUMENTS",
    "RETRIEVAL_IDS",
    "RETRIEVAL_QUERY",
    "RETRIEVAL_SCORES",
    "RETRIEVAL_TOP_K",
    "SESSION_ID",
    "SPAN_KIND",
    "TOTAL_TOKENS",
    "TRACER",
    "VERSION",
]

TRACER: Final = "ragtrace"

# OpenTelemetry GenAI
GEN_AI: Final = "gen_ai."
OPERATION_NAME: Final = "gen_ai.operation.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RETRIEVAL_DATA_SOURCE: Final = "gen_ai.data_source.id"
RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"  # one JSON value: [{"id": …, "score": …}]
SESSION_ID: Final = "session.id"
# content, on request only
RETRIEVAL_QUERY: Final = "gen_ai.retrieval.query.text"
INPUT_MESSAGES: Final = "gen_ai.input.messages"  # one JSON value: [{"role": …, "parts": […]}]
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
# events
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

# OpenTelemetry, exceptions
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"

# OpenInference
SPAN_KIND: Final = "openinference.span.kind"
INPUT_VALUE: Final = "input.value"
INPUT_TYPE: Final = "input.mime_type"
OUTPUT_VALUE: Final = "output.value"
OUTPUT_TYPE: Final = "output.mime_type"
DOCUMENTS: Final = "retrieval.documents"  # + ".N." + one of the four below
DOCUMENT_ID: Final = "document.id"
DOCUMENT_SCORE: Final = "document.score"
DOCUMENT_CONTENT: Final = "document.content"
DOCUMENT_METADATA: Final = "document.metadata"
RERANKER_INPUTS: Final = "reranker.input_documents"
RERANKER_OUTPUTS: Final = "reranker.output_documents"
RERANKER_QUERY: Final = "reranker.query"
RERANKER_MODEL: Final = "reranker.model_name"
RERANKER_TOP_K: Final = "reranker.top_k"
LLM_MODEL: Final = "llm.model_name"
LLM_INPUT: Final = "llm.input_messages"  # + ".N." + one of the two below
LLM_OUTPUT: Final = "llm.output_messages"
MESSAGE_ROLE: Final = "message.role"
MESSAGE_CONTENT: Final = "message.content"
PROMPT_TOKENS: Final = "llm.token_count.prompt"
COMPLETION_TOKENS: Final = "llm.token_count.completion"
TOTAL_TOKENS: Final = "llm.token_count.total"

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
PACK_DROPPED_REASONS: Final = "ragtrace.pack.dropped.reasons"  # "probably …": inferred, not stated by the host
ANSWER_LENGTH: Final = "ragtrace.generate.answer_length"
DOCUMENTS_LEFT_OUT: Final = "ragtrace.documents_left_out"  # they would have exceeded the span's attribute limit
REQUEST_ID: Final = "ragtrace.request.id"
REQUEST_SERVICE: Final = "ragtrace.service"
REQUEST_SEGMENT: Final = "ragtrace.segment"
REQUEST_QUERY_CLASS: Final = "ragtrace.query.class"
REQUEST_FLAGS: Final = "ragtrace.flags"
REQUEST_HEAD_SAMPLED: Final = "ragtrace.head_sampled"
REQUEST_HEAD_PROBABILITY: Final = "ragtrace.head_probability"
CITES: Final = "ragtrace.cites"  # of a request's span, or of the resource: whether answers are meant to cite
GRADE_IDS: Final = "ragtrace.grades.ids"  # by the host's own evaluator
GRADES: Final = "ragtrace.grades.values"
GRADE_ACTION: Final = "ragtrace.grades.action"
RANKING_ALPHA: Final = "ragtrace.ranking.alpha"  # of an order that was drawn at random
RANKING_LOG_PROBABILITY: Final = "ragtrace.ranking.log_probability"
RANKING_PLACES: Final = "ragtrace.ranking.places"
VERSION: Final = "ragtrace.version"  # + "." + component
REFERENCE: Final = "ragtrace.reference"
ANALYZER_VERSION: Final = "ragtrace.analyzer_version"
