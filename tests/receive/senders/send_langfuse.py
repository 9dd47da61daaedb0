"""Langfuse's SDK: its LangChain callback, and observations of its own."""

from __future__ import annotations

import capture
import pipelines


def run(url: str) -> None:
    """The LangChain pipeline with the callback, then a pipeline of observations."""
    from langfuse import Langfuse, propagate_attributes
    from langfuse.langchain import CallbackHandler

    client = Langfuse(public_key="pk-lf-tests", secret_key="sk-lf-tests", base_url=url, flush_at=1)
    pipelines.langchain_chain().invoke(capture.QUESTION, config={"callbacks": [CallbackHandler()]})
    documents = [{"id": each, "text": text, "score": score} for each, text, score in capture.DOCUMENTS]
    with (
        client.start_as_current_observation(as_type="chain", name="tariff_question", input=capture.QUESTION) as root,
        propagate_attributes(session_id="session-1", user_id="user-1"),
    ):
        with client.start_as_current_observation(as_type="retriever", name="search", input=capture.QUESTION) as found:
            found.update(output=documents)
        messages = [{"role": "user", "content": f"{documents[0]['text']}\n\n{capture.QUESTION}"}]
        with client.start_as_current_observation(
            as_type="generation", name="answer", model="tiny-llm", input=messages
        ) as generation:
            generation.update(output=capture.ANSWER, usage_details={"input_tokens": 30, "output_tokens": 7})
        root.update(output=capture.ANSWER)
    client.flush()


if __name__ == "__main__":
    capture.record(run, ["langfuse", "langchain-core"])
