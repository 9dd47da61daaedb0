"""Arize's OpenInference instrumentations of LangChain and LlamaIndex."""

from __future__ import annotations

import capture
import pipelines


def run(url: str) -> None:
    """Both pipelines, instrumented."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "tariff-assistant"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    pipelines.ask_langchain()
    pipelines.ask_llama_index()
    provider.shutdown()


if __name__ == "__main__":
    capture.record(
        run,
        [
            "openinference-instrumentation-langchain",
            "openinference-instrumentation-llama-index",
            "langchain-core",
            "llama-index-core",
        ],
    )
