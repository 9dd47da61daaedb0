"""Traceloop's OpenLLMetry instrumentations of LangChain and LlamaIndex."""

from __future__ import annotations

import os

import capture
import pipelines


def run(url: str) -> None:
    """Both pipelines, instrumented."""
    os.environ["TRACELOOP_TRACE_CONTENT"] = "true"
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "tariff-assistant"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    LangchainInstrumentor().instrument(tracer_provider=provider)
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    pipelines.ask_langchain()
    pipelines.ask_llama_index()
    provider.shutdown()


if __name__ == "__main__":
    capture.record(
        run,
        [
            "opentelemetry-instrumentation-langchain",
            "opentelemetry-instrumentation-llamaindex",
            "langchain-core",
            "llama-index-core",
        ],
    )
