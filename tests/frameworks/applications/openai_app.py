"""A file search that knows nothing of ragtrace."""

import openai

from tests.frameworks.openai_api import QUESTION, serving

with serving() as url:
    client = openai.OpenAI(base_url=url, api_key="-")
    made = client.responses.create(
        model="m",
        input=QUESTION,
        tools=[{"type": "file_search", "vector_store_ids": ["vs"]}],
        include=["file_search_call.results"],
    )
    print(made.output_text)
