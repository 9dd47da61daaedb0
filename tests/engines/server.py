"""A process that serves a causal language model over HTTP, in the forms of real servers, and with faults on request.

    python server.py MODEL_FOLDER          prints its port once it listens

`/vllm/v1`, `/echo/v1`, `/llamacpp/v1` and `/closed/v1` are servers of one kind each. `POST /faults` with
`[{"status": 429, "headers": {...}, "body": "...", "drop": true, "sleep": 1.0, "meet": true}, ...]` lets the next
requests fail in that way; `GET /seen` gives and forgets what was asked.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Model:
    """A model with its tokenizer, one request at a time."""

    def __init__(self, folder: Path) -> None:
        import torch
        import transformers

        torch.set_num_threads(1)
        self.torch = torch
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
        self.lock = threading.Lock()

    def ids(self, text: str, special: bool = True) -> list[int]:
        """Tokens of a text, with the BOS or without."""
        return [int(each) for each in self.tokenizer(text, add_special_tokens=special)["input_ids"]]

    def chat(self, messages: list[dict[str, str]], **options: Any) -> list[int]:
        """Tokens of a chat."""
        return list(self.tokenizer.apply_chat_template(messages, return_dict=True, **options)["input_ids"])

    def logprobs(self, ids: list[int]) -> Any:
        """(tokens, vocabulary): row i is what stands behind token i."""
        with self.lock, self.torch.inference_mode():
            return self.model(input_ids=self.torch.tensor([ids])).logits[0].float().log_softmax(-1)

    def continued(self, ids: list[int], count: int) -> list[int]:
        """The greedy continuation."""
        new: list[int] = []
        while len(new) < count:
            new.append(int(self.logprobs(ids + new)[-1].argmax()))
            if new[-1] == self.tokenizer.eos_token_id:
                break
        return new

    def text(self, token: int) -> str:
        """One token as servers write it."""
        return str(self.tokenizer.decode([token]))


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    model: Model
    faults: list[dict[str, Any]]
    seen: list[dict[str, Any]]
    meeting = threading.Barrier(2)

    def do_GET(self) -> None:
        """`/seen`, and llama.cpp's `/props`."""
        if self.path == "/seen":
            seen = self.seen[:]
            del self.seen[: len(seen)]  # before the reply: whoever asked may send its next request right behind it
            self._send(200, seen)
        elif self.path == "/llamacpp/props":
            self._send(200, {"default_generation_settings": {}, "build_info": "b7000-test"})
        else:
            self._send(404, {"error": {"message": "File Not Found", "code": 404}})

    def do_POST(self) -> None:
        """A fault if one waits, else what the server of this path answers."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/faults":
            self.faults[:] = body
            self._send(200, {})
            return
        self.seen.append({"path": self.path, "body": body, "key": self.headers.get("Authorization")})
        if self.faults and not self._survives(self.faults.pop(0)):
            return
        kind, _, route = self.path[1:].partition("/")
        try:
            self._send(200, getattr(self, f"_{kind}")(route, body))
        except Refused as refused:
            self._send(refused.status, {"error": {"message": str(refused), "code": refused.status}})

    def log_message(self, *args: Any) -> None:
        """Silent."""

    def _survives(self, fault: dict[str, Any]) -> bool:
        time.sleep(fault.get("sleep", 0.0))
        if fault.get("meet"):  # waits for another request that does the same
            self.meeting.wait(timeout=30.0)
        if fault.get("drop"):
            self.close_connection = True
            self.connection.close()
            return False
        if "body" in fault or "status" in fault:
            self._send(fault.get("status", 200), fault.get("body", {}), fault.get("headers", {}))
            return False
        return True

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _vllm(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        if route == "v1/chat/completions":
            return self._vllm_chat(body)
        ids = self.model.ids(body["prompt"])
        found = self._completion(ids, body)
        if body.get("prompt_logprobs") is not None:
            found["choices"][0]["prompt_logprobs"] = self._entries(ids, body["prompt_logprobs"])
        return found

    def _vllm_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("continue_final_message"):
            ids = self.model.chat(body["messages"], continue_final_message=True)
        else:
            ids = self.model.chat(body["messages"], add_generation_prompt=True)
        found = self._completion(ids, body, chat=True)
        found["prompt_logprobs"] = None
        if body.get("prompt_logprobs") is not None:
            found["prompt_logprobs"] = self._entries(ids, body["prompt_logprobs"])
        return found

    def _entries(self, ids: list[int], top: int) -> list[Any]:
        rows = self.model.logprobs(ids)
        entries: list[Any] = [None]
        for token, row in zip(ids[1:], rows, strict=False):
            listed = [token, *row.topk(top).indices.tolist()] if top else [token]
            entries.append(
                {
                    str(each): {"logprob": float(row[each]), "rank": 1, "decoded_token": self.model.text(each)}
                    for each in dict.fromkeys(listed)
                }
            )
        return entries

    def _echo(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        if "prompt_logprobs" in body:
            raise Refused(400, "Unrecognized request argument supplied: prompt_logprobs")
        if route != "v1/completions":
            raise Refused(404, "Not Found")
        ids = self.model.ids(body["prompt"])
        found = self._completion(ids, body)
        if body.get("echo") and body.get("logprobs") is not None:
            every = ids + self.model.continued(ids, body["max_tokens"])
            rows = self.model.logprobs(every)
            texts = [self.model.text(token) for token in every]
            found["choices"][0]["logprobs"] = {
                "tokens": texts,
                "token_logprobs": [None] + [float(row[each]) for row, each in zip(rows, every[1:], strict=False)],
                "top_logprobs": [None, *({} for _ in every[1:])],
                "text_offset": [sum(map(len, texts[:at])) for at in range(len(texts))],
            }
        return found

    def _closed(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        if route != "v1/chat/completions":
            raise Refused(404, "this is a chat model")
        ids = self.model.chat(body["messages"], add_generation_prompt=True)
        return self._completion(ids, body, chat=True, tells=False)

    def _embeddings(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        """Counts of words, in 64 places by their spelling; the last text first."""
        if route != "v1/embeddings":
            raise Refused(404, "this is a model of embeddings")
        if not all(text.strip() for text in body["input"]):
            raise Refused(400, "an input is empty")
        vectors = [[0] * 64 for _ in body["input"]]
        for vector, text in zip(vectors, body["input"], strict=True):
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % 64] += 1
        data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        return {"data": data[::-1], "usage": {"prompt_tokens": sum(len(text.split()) for text in body["input"])}}

    def _llamacpp(self, route: str, body: dict[str, Any]) -> Any:
        if route == "tokenize":
            ids = self.model.ids(body["content"], body["add_special"])
            return {"tokens": [{"id": token, "piece": self.model.text(token)} for token in ids]}
        if route == "apply-template":
            ids = self.model.chat(body["messages"], add_generation_prompt=True)
            return {"prompt": self.model.tokenizer.decode(ids)}
        if route == "completion":
            return self._forced(body)
        if body.get("echo"):
            raise Refused(400, "Only no echo is supported")
        ids = self.model.ids(body["prompt"]) if "prompt" in body else self.model.chat(body["messages"])
        return self._completion(ids, body, chat="messages" in body)

    def _forced(self, body: dict[str, Any]) -> dict[str, Any]:
        forced = [int(token) for token, _ in body.get("logit_bias", [])]
        if "grammar" in body:
            if body["prompt"][-1] == self.model.tokenizer.unk_token_id:
                raise Refused(400, "Failed to parse grammar")
            forced = [int(part[2:-2]) for part in body["grammar"].split() if part.startswith("<[")]
        given, listed = list(body["prompt"]), []
        for token in forced[: body["n_predict"]]:
            row = self.model.logprobs(given)[-1]
            tops = [{"id": each, "logprob": float(row[each])} for each in row.topk(min(len(row), body["n_probs"]))[1]]
            tops = [{"id": int(each["id"]), "logprob": each["logprob"]} for each in tops]
            listed.append({"id": token, "logprob": float(row[token]), "top_logprobs": tops})
            given.append(token)
        return {"completion_probabilities": listed, "tokens_evaluated": len(body["prompt"])}

    def _listed(self, ids: list[int], new: list[int], body: dict[str, Any], chat: bool) -> dict[str, Any]:
        """Log-probabilities of generated tokens, as a chat and as a completion list them."""
        rows = self.model.logprobs(ids + new)[len(ids) - 1 :]
        count = min(body["top_logprobs"] if chat else body["logprobs"], rows.shape[-1])
        tops = [{self.model.text(int(each)): float(row[each]) for each in row.topk(count).indices} for row in rows]
        pairs = list(zip(new, rows, tops, strict=False))
        if not chat:
            return {
                "tokens": [self.model.text(token) for token in new],
                "token_logprobs": [float(row[token]) for token, row, _ in pairs],
                "top_logprobs": [top for *_, top in pairs],
            }
        content = [
            {
                "token": self.model.text(token),
                "logprob": float(row[token]),
                "top_logprobs": [{"token": text, "logprob": value} for text, value in top.items()],
            }
            for token, row, top in pairs
        ]
        return {"content": content}

    def _completion(
        self, ids: list[int], body: dict[str, Any], chat: bool = False, tells: bool = True
    ) -> dict[str, Any]:
        new = self.model.continued(ids, body.get("max_tokens", 16))
        text = self.model.tokenizer.decode(new, skip_special_tokens=True)
        if body.get("echo"):
            text = body["prompt"] + text
        said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(new), "total_tokens": len(ids) + len(new)}
        listed = self._listed(ids, new, body, chat) if tells and body.get("logprobs") and not body.get("echo") else None
        choice = {"index": 0, "finish_reason": "length", "logprobs": listed, **said}
        return {"id": "c", "model": body["model"], "choices": [choice], "usage": usage}


def main() -> None:
    """Serve until the process is ended."""
    Handler.model, Handler.faults, Handler.seen = Model(Path(sys.argv[1])), [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
