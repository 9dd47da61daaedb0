"""How far explanations agree with evidence that people marked: F1 and completeness on CLAP-NQ, WiCE and ExpertQA.

    python bench/evidence.py MODEL --questions clapnq/clapnq_dev_answerable.jsonl --requests 20
    python bench/evidence.py MODEL --questions wice/entailment/dev.jsonl --requests 12
    python bench/evidence.py MODEL --questions expertqa/claims.jsonl --requests 12
    python bench/evidence.py --tables smollm2_k5.npz --questions clapnq/clapnq_dev_answerable.jsonl

What a file is, its rows tell. Each request has a text in parts, of which people marked some: CLAP-NQ a passage of
sentences, of which their answer needs some; WiCE up to eight sentences of a web page, of which a claim rests on some;
ExpertQA the sources of an answer (the first 60 words of each), of which a claim cites some that an expert found to
support it completely. The model is asked with the text as its only document. `answers`: RAG-Ex; it answers again
without each sentence, and answers are compared. `log-probabilities`: what the people's answer, or the claim, loses
without each sentence. Both weigh sentences from 0 to 1; a part with a sentence of half or more is chosen. F1 is of what
was chosen and what was marked; completeness is the share of the marked parts that were chosen. Beside them stands
choosing every part. Intervals are 95 % bootstrap intervals over requests.

Complete tables, whose documents are the first sentences of each passage, need no model: they give exact Shapley values
(a sentence is chosen from half of the largest share on) and what is lost without each sentence.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from ragtrace.attribution import CoalitionLog, known_values
from ragtrace.attribution.game import all_coalitions
from ragtrace.attribution.perturbation import distances
from ragtrace.attribution.spans import without
from ragtrace.engines.causal_lm import CausalLM, Generated
from ragtrace.engines.model_agnostic import SimilarityGame, leave_sentences_out, prompt_sentences
from ragtrace.explanations import PromptPart
from ragtrace.prompts import escaped, rebuild
from ragtrace.types import PackedChunk

CHOSEN = 0.5
PUBLISHED = {"F1": 0.769, "completeness": 0.647}  # RAG-Ex, of explanations beside what users marked
SENTENCES = (3, 8)
WORDS = 60  # of a source
SOURCE = re.compile(r"\A\s*\[\d+\]\s*(?:https?://\S+)?\s*")  # its number and address, before its text
CITED = re.compile(r"\s*\[\d+\]")
RESAMPLES = 1000


@dataclass(frozen=True)
class Marked:
    """A question, the sentences (or sources) of its text, which of them people marked, and their answer."""

    question: str
    sentences: list[str]
    marked: frozenset[int]
    answer: str

    @property
    def chunk(self) -> PackedChunk:
        """The passage."""
        return PackedChunk(chunk_id="passage", position=1, text=" ".join(self.sentences))

    @property
    def template(self) -> str:
        """The prompt."""
        asked = escaped(self.question)
        return (
            f"Answer the question briefly with the help of the text below.\n\n{{chunk:passage}}\n\nQuestion: {asked}?"
        )


class Silent:
    """A model of which nothing but its answers is asked, so many tokens long."""

    name = "silent"

    def __init__(self, model: CausalLM, tokens: int) -> None:
        self._model, self._tokens = model, tokens

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """An answer to each prompt."""
        most = min(max_new_tokens, self._tokens)
        return [self._model.generate(prompt, max_new_tokens=most) for prompt in prompts]


def read(path: Path) -> Iterator[Marked]:
    """The requests of a file, of which some parts are marked and some are not."""
    for line in path.read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        found = of_clapnq(row) if "passages" in row else of_expertqa(row) if "claims" in row else of_wice(row)
        if found is not None and 0 < len(found.marked) < len(found.sentences):
            yield found


def of_clapnq(row: dict[str, Any]) -> Marked | None:
    """A question whose passage has a few sentences."""
    sentences = [" ".join(each.split()) for each in row["passages"][0]["sentences"] if each.strip()]
    output = row["output"][0]
    named = {" ".join(each.split()) for each in output["selected_sentences"]}
    marked = frozenset(at for at, each in enumerate(sentences) if each in named)
    if not SENTENCES[0] <= len(sentences) <= SENTENCES[1]:
        return None
    return Marked(row["input"], sentences, marked, " ".join(output["answer"].split()[:40]))


def of_wice(row: dict[str, Any]) -> Marked | None:
    """A claim with the sentences around the first marked set that lies within eight; all marked ones there count."""
    texts, most = row["evidence"], SENTENCES[1]
    sets = (sorted(each) for each in row["supporting_sentences"] if each)
    near = next((each for each in sets if each[-1] - each[0] < most - 2), None)
    if near is None:
        return None
    first = max(0, min((near[0] + near[-1]) // 2 - most // 2 + 1, len(texts) - most))
    places = [at for at in range(first, min(first + most, len(texts))) if texts[at].strip()]
    named = {at for each in row["supporting_sentences"] for at in each}
    marked = frozenset(number for number, at in enumerate(places) if at in named)
    question = f"What does the text say of {row['meta']['claim_title']}"
    sentences = [" ".join(texts[at].split()) for at in places]
    return Marked(question, sentences, marked, " ".join(row["claim"].split()[:40]))


def of_expertqa(row: dict[str, Any]) -> Marked | None:
    """The first completely supported claim that cites some of the answer's sources, and not all."""
    sources = list(dict.fromkeys(each for claim in row["claims"] for each in claim["evidence"]))
    texts = [" ".join(SOURCE.sub("", each).split()[:WORDS]) for each in sources]
    if not SENTENCES[0] <= len(sources) <= SENTENCES[1] or len(set(texts)) < len(texts) or not all(texts):
        return None
    for claim in row["claims"]:
        marked = frozenset(at for at, each in enumerate(sources) if each in claim["evidence"])
        if claim["support"] == "Complete" and 0 < len(marked) < len(sources):
            said = CITED.sub("", claim["claim_string"])
            return Marked(row["question"].rstrip(" ?"), texts, marked, " ".join(said.split()[:40]))
    return None


def chosen(asked: Marked, parts: Sequence[PromptPart], prompt: str) -> set[int]:
    """The sentences of the passage that the parts of half of the weight or more touch."""
    start = prompt.index(asked.chunk.text or "")
    places, at = [], start
    for sentence in asked.sentences:
        places.append((at, at + len(sentence)))
        at += len(sentence) + 1
    strong = [part for part in parts if part.kind == "document" and part.weight >= CHOSEN]
    return {
        number for number, (first, end) in enumerate(places) if any(p.start < end and p.end > first for p in strong)
    }


def by_answers(model: CausalLM, asked: Marked, tokens: int) -> set[int]:
    """RAG-Ex: the model's own answer to the full prompt beside those without each sentence."""
    game = SimilarityGame(Silent(model, tokens), asked.template, [asked.chunk], question=asked.question)
    return chosen(asked, leave_sentences_out(game), game.prompt)


def by_log_probabilities(model: CausalLM, asked: Marked) -> set[int]:
    """What the people's answer loses for each token without a sentence."""
    prompt = rebuild(asked.template, [asked.chunk])
    parts = [part for part in prompt_sentences(asked.template, [asked.chunk]) if part.kind == "document"]
    prompts = [without(prompt, part.start, part.end) for part in parts]
    kept = model.score([prompt, *prompts], asked.answer, like=prompt).mean(axis=1)[1:]
    weights = distances(kept)
    weighed = [PromptPart(start=p.start, end=p.end, weight=float(w)) for p, w in zip(parts, weights, strict=True)]
    return chosen(asked, weighed, prompt)


def by_tables(file: Path, questions: Path) -> Iterator[tuple[dict[str, set[int]], frozenset[int], int]]:
    """Of each table whose first sentences are marked in part: what is chosen, what is marked, how many there are."""
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    with np.load(file) as held:
        tables = [held[f"t{at}"].astype(np.float64) for at in range(len(held.files))]
    k = int(np.log2(len(tables[0])))
    enough = (row for row in rows if sum(bool(each.strip()) for each in row["passages"][0]["sentences"]) >= k)
    for table, row in zip(tables, enough, strict=False):
        sentences = [each.strip() for each in row["passages"][0]["sentences"] if each.strip()][:k]
        named = {each.strip() for each in row["output"][0]["selected_sentences"]}
        marked = frozenset(at for at, each in enumerate(sentences) if each in named)
        if not 0 < len(marked) < k:
            continue
        shares = known_values(CoalitionLog(k, all_coalitions(k), table)).scores
        kept = table.mean(axis=1)[[len(table) - 1 - (1 << at) for at in range(k)]]
        chosen = {
            "Shapley values": set(np.flatnonzero(shares >= CHOSEN * shares.max()).tolist()),
            "log-probabilities": set(np.flatnonzero(distances(kept) >= CHOSEN).tolist()),
        }
        yield chosen, marked, k


def agreement(found: set[int], marked: frozenset[int]) -> tuple[float, float]:
    """F1, and completeness."""
    both = len(found & marked)
    return (2 * both / (len(found) + len(marked)) if found else 0.0), both / len(marked)


def told(values: Sequence[tuple[float, float]]) -> str:
    """Both means with their intervals."""
    table = np.array(values)
    draws = np.random.default_rng(0).integers(len(table), size=(RESAMPLES, len(table)))
    low, high = np.quantile(table[draws].mean(axis=1), [0.025, 0.975], axis=0)
    names = zip(PUBLISHED, table.mean(axis=0), low, high, strict=True)
    return "  ".join(f"{name} {mean:.3f} ({a:.3f} to {b:.3f})" for name, mean, a, b in names)


def main() -> None:
    """Reads the command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", nargs="?")
    options.add_argument("--questions", type=Path)
    options.add_argument("--requests", type=int, default=20)
    options.add_argument("--tokens", type=int, default=24, help="of an answer")
    options.add_argument("--tables", type=Path, help="complete tables of the first questions, in place of a model")
    given = options.parse_args()
    if given.questions is None or not (given.model or given.tables):
        print("give a model or tables, and a file of CLAP-NQ, WiCE or ExpertQA: nothing is measured without them")
        return
    if given.tables is not None:
        found_by: dict[str, list[tuple[float, float]]] = {}
        for ways_of, marked, k in by_tables(given.tables, given.questions):
            for name, sentences in {**ways_of, "every sentence": set(range(k))}.items():
                found_by.setdefault(name, []).append(agreement(sentences, marked))
        for name, values in found_by.items():
            print(f"{len(values)} requests  {name:18} {told(values)}")
        print(f"RAG-Ex as published {PUBLISHED}")
        return
    model = CausalLM.load(given.model)
    found: dict[str, list[tuple[float, float]]] = {}
    for done, asked in enumerate(islice(read(given.questions), given.requests), 1):
        ways = {
            "answers": by_answers(model, asked, given.tokens),
            "log-probabilities": by_log_probabilities(model, asked),
            "every sentence": set(range(len(asked.sentences))),
        }
        for name, sentences in ways.items():
            found.setdefault(name, []).append(agreement(sentences, asked.marked))
        print(f"{done} requests", flush=True)
        for name, values in found.items():
            print(f"  {name:18} {told(values)}", flush=True)
    print(f"  RAG-Ex as published {PUBLISHED}")


if __name__ == "__main__":
    main()
