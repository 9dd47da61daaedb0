"""TruLens: an application instrumented by hand, and a LangChain one."""

from __future__ import annotations

import os
import tempfile

import capture
import pipelines

os.environ["TRULENS_OTEL_TRACING"] = "1"


def run(url: str) -> None:
    """Both applications, once each."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from trulens.apps.app import TruApp
    from trulens.apps.langchain import TruChain
    from trulens.core.otel.instrument import instrument
    from trulens.core.session import TruSession
    from trulens.otel.semconv.trace import SpanAttributes

    class Assistant:
        @instrument(
            span_type=SpanAttributes.SpanType.RETRIEVAL,
            attributes={
                SpanAttributes.RETRIEVAL.QUERY_TEXT: "question",
                SpanAttributes.RETRIEVAL.RETRIEVED_CONTEXTS: "return",
            },
        )
        def search(self, question: str) -> list[str]:
            return [text for _, text, _ in capture.DOCUMENTS]

        @instrument(span_type=SpanAttributes.SpanType.GENERATION)
        def write(self, question: str, contexts: list[str]) -> str:
            return capture.ANSWER

        @instrument(
            span_type=SpanAttributes.SpanType.RECORD_ROOT,
            attributes={
                SpanAttributes.RECORD_ROOT.INPUT: "question",
                SpanAttributes.RECORD_ROOT.OUTPUT: "return",
            },
        )
        def ask(self, question: str) -> str:
            return self.write(question, self.search(question))

    with tempfile.TemporaryDirectory() as folder:
        session = TruSession(
            database_url=f"sqlite:///{folder}/trulens.sqlite",
            span_exporter=OTLPSpanExporter(f"{url}/v1/traces"),
        )
        assistant = Assistant()
        with TruApp(assistant, app_name="tariff-assistant", app_version="1", main_method=assistant.ask):
            assistant.ask(capture.QUESTION)
        chain = pipelines.langchain_chain()
        with TruChain(chain, app_name="tariff-chain", app_version="1"):
            chain.invoke(capture.QUESTION)
        session.force_flush()


if __name__ == "__main__":
    capture.record(run, ["trulens-core", "trulens-apps-langchain", "langchain-core"])
