"""How long it takes to explain one answer with a real model on the CPU, by parts: processor seconds and seconds on the
clock.

    python bench/explaining.py MODEL --questions clapnq_dev_answerable.jsonl --documents 5

The documents are the first words of passages of CLAP-NQ, the answer is the people's, filled up from its passage. What
is imported counts for no part. Run it on a quiet machine: beside other work both figures rise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

import torch  # noqa: F401
import transformers  # noqa: F401

from ragtrace.analyze.attribution import explain_record
from ragtrace.engines._scoring import abilities
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.model_names import load_generator
from ragtrace.engines.models import available_cores
from ragtrace.prompts import escaped
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)

INSTRUCTION = "Answer the question with the help of the documents below."


def request(path: Path, documents: int, words: int, answered: int) -> RequestRecord:
    """A request of so many documents of so many words, with an answer of `answered` words."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:documents]]
    passages = [" ".join(row["passages"][0]["sentences"]).split() for row in rows]
    texts = {f"d{at}": " ".join(passage[:words]) for at, passage in enumerate(passages)}
    answer = [*rows[0]["output"][0]["answer"].split(), *passages[0]][:answered]
    listed = "".join(f"[{at}] {{chunk:{name}}}\n" for at, name in enumerate(texts, 1))
    template = f"{INSTRUCTION}\n\n{listed}\nQuestion: {escaped(rows[0]['input'])}\nAnswer:"
    pairs = list(enumerate(texts.items(), 1))
    found = tuple(Candidate(chunk_id=name, rank=at, text=text) for at, (name, text) in pairs)
    chunks = tuple(PackedChunk(chunk_id=name, position=at, text=text) for at, (name, text) in pairs)
    generation = Generation(answer=" ".join(answer), prompt_template=template)
    return RequestRecord(
        request_id="r",
        service="s",
        query=Query(original=rows[0]["input"]),
        stages=(
            RetrieveRun(candidates=found),
            PackRun(packing=Packing(chunks=chunks)),
            GenerateRun(generation=generation),
        ),
    )


@contextmanager
def timed(name: str, told: Callable[[str, float, float], None]) -> Iterator[None]:
    """Tells what the block took: processor seconds, and those on the clock."""
    used, began = time.process_time(), time.perf_counter()
    yield
    told(name, time.process_time() - used, time.perf_counter() - began)


def main() -> None:
    """Print the seconds of each part, and their sums."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model")
    options.add_argument("--questions", type=Path, required=True)
    options.add_argument("--documents", type=int, default=5)
    options.add_argument("--words", type=int, default=70, help="of a document")
    options.add_argument("--answer", type=int, default=46, help="words of the answer")
    options.add_argument("--query", action="store_true", help="the words of the question as well")
    given = options.parse_args()
    parts: list[tuple[float, float]] = []

    def told(name: str, used: float, on_clock: float) -> None:
        parts.append((used, on_clock))
        print(f"{name:24} {used:6.1f} s of processor  {on_clock:6.1f} s on the clock", flush=True)

    asked = request(given.questions, given.documents, given.words, given.answer)
    with timed("read the file", told):
        model = load_generator(given.model, workers=available_cores())
    assert isinstance(model, CausalLM), "a model that is loaded here"
    with timed("try the model", told):
        abilities(model._model, available_cores())
    for part in ("generator", "query") if given.query else ("generator",):
        with timed(part, told):
            explanation = explain_record(asked, generator=model, parts=[part])
        found = explanation.generator or explanation.query
        assert found is not None, explanation.skipped
        print(f"  {found.evaluations} subsets, {len(found.answer_spans)} tokens of the answer, {found.method}")
    told("together", sum(used for used, _ in parts), sum(on_clock for _, on_clock in parts))


if __name__ == "__main__":
    main()
