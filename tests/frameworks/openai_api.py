"""A server on the loopback that speaks OpenAI's API: chat completions, responses, streams and vector stores."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["ANSWER", "QUESTION", "RESULTS", "TEXTS", "Api", "serving"]

TEXTS = [
    "Employees may take twenty days of leave in a calendar year.",
    "The notice period is three months to the end of a quarter.",
]
QUESTION = "How many days of leave are there?"
ANSWER = "Twenty days."
USAGE = {"prompt_tokens": 40, "completion_tokens": 3, "total_tokens": 43}
RESULTS = [
    {"file_id": "file-1", "filename": "handbook.pdf", "score": 0.9, "text": TEXTS[0], "attributes": {}},
    {"file_id": "file-1", "filename": "handbook.pdf", "score": 0.4, "text": TEXTS[1], "attributes": {}},
]


def completion() -> dict[str, Any]:
    """A chat completion."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": USAGE}


def chunks() -> list[dict[str, Any]]:
    """The same in parts."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    deltas = [{"role": "assistant", "content": "Twenty"}, {"content": " days."}]
    parts = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*parts, end, {**head, "choices": [], "usage": USAGE}]


def response(searched: bool) -> dict[str, Any]:
    """A response, after a search of files if there was one."""
    content = {"type": "output_text", "text": ANSWER, "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [content]}
    ]
    if searched:
        search = {"type": "file_search_call", "id": "f", "status": "completed", "queries": ["days of leave"]}
        output.insert(0, {**search, "results": RESULTS})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 40, "output_tokens": 3, "total_tokens": 43, **details}
    about = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {
        **{"id": "r", "object": "response", "created_at": 1, "model": "m-1", "status": "completed"},
        **about,
        **{"output": output, "usage": usage},
    }


def events() -> list[dict[str, Any]]:
    """A response in parts."""
    place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
    deltas = [
        {"type": "response.output_text.delta", "delta": text, "sequence_number": number, **place}
        for number, text in enumerate(("Twenty", " days."), 1)
    ]
    return [*deltas, {"type": "response.completed", "sequence_number": 3, "response": response(False)}]


class Api(BaseHTTPRequestHandler):
    """What the client talks to."""

    results = RESULTS

    def do_POST(self) -> None:
        """Chat completions, responses and vector stores."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if given.get("model") == "broken":
            self._send(400, "application/json", json.dumps({"error": {"message": "no such model"}}))
        elif self.path.endswith("/search"):
            data = [
                {**{key: each[key] for key in ("file_id", "filename", "score", "attributes")}}
                | {"content": [{"type": "text", "text": each["text"]}]}
                for each in self.results
            ]
            page = {"object": "vector_store.search_results.page", "data": data, "has_more": False, "next_page": None}
            self._send(200, "application/json", json.dumps(page))
        elif given.get("stream"):
            parts = events() if self.path.endswith("/responses") else chunks()
            heads = [f"event: {part['type']}\n" if "type" in part else "" for part in parts]
            lines = [f"{head}data: {json.dumps(part)}\n\n" for head, part in zip(heads, parts, strict=True)]
            self._send(200, "text/event-stream", "".join(lines) + "data: [DONE]\n\n")
        else:
            found = response("tools" in given) if self.path.endswith("/responses") else completion()
            self._send(200, "application/json", json.dumps(found))

    def _send(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
        """Silent."""


@contextmanager
def serving(api: type[Api] = Api) -> Iterator[str]:
    """The address of a running server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
