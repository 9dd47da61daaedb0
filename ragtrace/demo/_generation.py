"""The demo's generation: which chunks enter the prompt, in which order, within a token budget; and answers, extractive
with citations by default, or by a causal language model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ragtrace.demo._retrieval import Hit, query_terms
from ragtrace.prompts import escaped, placeholder, rebuild
from ragtrace.types import content_hash

if TYPE_CHECKING:
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.engines.encoder import Encoder

__all__ = [
    "PROMPT_HASH",
    "BudgetPacker",
    "Context",
    "DemoAnswer",
    "DroppedHit",
    "ExtractiveAnswerer",
    "Generator",
    "LanguageModelAnswerer",
    "PackedHit",
    "Packer",
]

BUDGET: Final = 640
LIMIT: Final = 8
SMALLEST_CUT: Final = 40  # a chunk is not cut shorter than this many tokens, but left out
PROMPT: Final = """You answer questions about insurance policies. Use only the numbered extracts below, state amounts,
periods and conditions exactly as they stand there, and put the number of the extract behind each sentence, like [1].

{extracts}

Question: {question}
Answer:"""
PROMPT_HASH: Final = content_hash(PROMPT)[:8]
STEM: Final = 5
_SENTENCE_END: Final = re.compile(r"(?<=[.;])\s+")
_MOMENT: Final = re.compile(r"(?:edition \d+\.\d+ of )?20\d\d")
_CLAUSE: Final = re.compile(r",? and (?=what|which|how|when|above|after|up|for)|, (?=but|and)")
_ASKS_EXCEPTION: Final = re.compile(r"\b(not|exception|excludes?|excluded|unless|without)\b")
_STATES_EXCEPTION: Final = re.compile(r"\b(not|no|nothing|unless|excluded|without|never)\b")
_ASKED_FIGURES: Final = (  # what a question asks for, and how a sentence that states it looks
    (re.compile(r"\b(how old|age)\b"), re.compile(r"\d years")),
    (
        re.compile(r"\b(how (long|soon)|how many (days|hours|months)|period|deadline|days|when does|longest)\b"),
        re.compile(r"\d (?:consecutive )?(?:hours?|days?|weeks|months)"),
    ),
    (
        re.compile(r"\b(how much|amount|limit|total|worth|value|turnover|most|maximum|cover|pay)\b"),
        re.compile(r"\b(?:up to|most|limit\w*|more than|less than|above|exceeds?|beyond)\b.*[A-Z]{3} \d"),
    ),
    (re.compile(r"\bhow many\b"), re.compile(r"\d [a-z]")),
)
_EDITION: Final = re.compile(r"edition \d+\.\d+ \(\d{4}\)")


@dataclass(frozen=True, slots=True)
class PackedHit:
    """One chunk as it stands in the prompt."""

    chunk_id: str
    text: str
    tokens: int
    tokens_full: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class DroppedHit:
    """One chunk that was left out, and why."""

    chunk_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """The evidence of one prompt."""

    chunks: list[PackedHit]
    dropped: list[DroppedHit]
    budget_tokens: int


class Packer(Protocol):
    """Chooses what enters the prompt."""

    version: str

    def pack(self, hits: Sequence[Hit]) -> Context:
        """Fill the budget from `hits`, best first."""
        ...


class BudgetPacker:
    """Takes chunks in rank order until the token budget or the limit is reached.

    A chunk whose body is already in the prompt is a duplicate; one that no longer fits is cut behind its last whole
    sentence, or dropped where too little of it would remain.
    """

    def __init__(
        self, encoder: Encoder, *, budget: int = BUDGET, limit: int = LIMIT, version: str = "budget-2.0"
    ) -> None:
        self.version = version
        self._encoder = encoder
        self._budget = budget
        self._limit = limit
        self._counts: dict[str, int] = {}

    def pack(self, hits: Sequence[Hit]) -> Context:
        """Fill the budget from `hits`, best first."""
        context = Context([], [], self._budget)
        bodies: set[str] = set()
        left = self._budget
        for hit in hits:
            body = hit.text.partition("\n")[2]
            packed = None if body in bodies or len(context.chunks) == self._limit else self._fit(hit, left)
            if packed is None:
                context.dropped.append(DroppedHit(hit.chunk_id, self._reason(body in bodies, context)))
                continue
            bodies.add(body)
            left -= packed.tokens
            context.chunks.append(packed)
        return context

    def _fit(self, hit: Hit, left: int) -> PackedHit | None:
        tokens = self._count(hit.text)
        if tokens <= left:
            return PackedHit(hit.chunk_id, hit.text, tokens, tokens)
        if left < SMALLEST_CUT:
            return None
        text = _whole_sentences(self._encoder.truncate(hit.text, left))
        cut = self._count(text)
        return PackedHit(hit.chunk_id, text, cut, tokens, truncated=True) if cut >= SMALLEST_CUT else None

    def _reason(self, duplicate: bool, context: Context) -> str:
        if duplicate:
            return "duplicate"
        return "limit" if len(context.chunks) == self._limit else "budget"

    def _count(self, text: str) -> int:
        if text not in self._counts:
            self._counts[text] = self._encoder.count_tokens(text)
        return self._counts[text]


def _whole_sentences(text: str) -> str:
    return text[: text.rfind(". ") + 1] or text[: text.rfind(".") + 1]


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """A generated answer. `prompt_template` has `{chunk:ID}` where the extracts stood."""

    answer: str
    prompt_template: str
    finish_reason: str = "stop"
    usage: Mapping[str, int] | None = None


class Generator(Protocol):
    """Writes an answer from the packed evidence."""

    version: str

    def generate(self, question: str, context: Context) -> DemoAnswer:
        """Answer `question` from `context`."""
        ...


@dataclass(frozen=True, slots=True)
class _Extract:
    """One sentence of the prompt: its extract's number and header, and the terms of the wording, title and body."""

    number: int
    text: str
    header: str
    wording: frozenset[str]
    title: frozenset[str]
    body: frozenset[str]


class ExtractiveAnswerer:
    """Quotes the packed sentence that fits each part of the question best, and cites its extract.

    A question that compares two editions gets one sentence for each; one with two clauses gets one for each clause.
    """

    version = "extractive-1.2"

    def generate(self, question: str, context: Context) -> DemoAnswer:
        """Answer `question` from `context`."""
        extracts = _extracts(context)
        chosen: list[_Extract] = []
        for full, part in _parts(question):
            best = _best(full, part, [extract for extract in extracts if extract not in chosen])
            if best is not None:
                chosen.append(best)
        text = _compose(chosen) if chosen else "I could not find this in the policy wordings."
        return DemoAnswer(text, prompt_template(question, context))


class LanguageModelAnswerer:
    """Lets a causal language model write the answer."""

    def __init__(self, model: CausalLM) -> None:
        self.version = model.name
        self._model = model

    def generate(self, question: str, context: Context) -> DemoAnswer:
        """Answer `question` from `context`."""
        template = prompt_template(question, context)
        made = self._model.generate(rebuild(template, context.chunks))
        usage = {"input_tokens": made.input_tokens, "output_tokens": made.output_tokens}
        return DemoAnswer(made.text, template, made.finish_reason, usage)


def prompt_template(question: str, context: Context) -> str:
    """The prompt with `{chunk:ID}` in place of each extract's text."""
    extracts = "\n".join(f"[{number}] {placeholder(chunk.chunk_id)}" for number, chunk in enumerate(context.chunks, 1))
    return PROMPT.replace("{extracts}", extracts).replace("{question}", escaped(question))


def _split_sentences(text: str) -> list[str]:
    """The sentences and semicolon clauses of a wording's body."""
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


def _extracts(context: Context) -> list[_Extract]:
    found = []
    for number, chunk in enumerate(context.chunks, 1):
        header, _, body = chunk.text.partition("\n")
        wording, _, title = header.partition(":")
        for sentence in _split_sentences(body):
            found.append(_Extract(number, sentence, header, _terms(wording), _terms(title), _terms(sentence)))
    return found


def _parts(question: str) -> list[tuple[str, str]]:
    """What the answer has to give: (the question with one moment only, its clause) for each part."""
    moments = _MOMENT.findall(question)
    if len(set(moments)) > 1:
        return [(_only(question, moment, moments), question) for moment in moments]
    return [(question, clause) for clause in _CLAUSE.split(question) if query_terms(clause)]


def _only(question: str, moment: str, moments: Sequence[str]) -> str:
    for other in moments:
        if other != moment:
            question = question.replace(other, "")
    return question


def _best(full: str, part: str, extracts: Sequence[_Extract]) -> _Extract | None:
    """The extract that fits `part`: first of all from the wording that `full` names, then by what it states."""
    asked, clause = _terms(full), _terms(part)
    figure, exception = _asked_figure(part.lower()), bool(_ASKS_EXCEPTION.search(part.lower()))
    rarity = _rarity(extracts)
    quoted = {term for term in asked if term[0].isdigit()}  # a figure in the question is not what is asked for

    def fit(extract: _Extract) -> float:
        stated = extract.body - extract.wording
        content = sum(rarity[term] for term in clause & stated) + 0.3 * len(asked & stated)
        kind = 4.0 * bool(figure and figure.search(extract.text))
        kind += 2.0 * (exception == bool(_STATES_EXCEPTION.search(extract.text.lower())))
        kind -= 4.0 * bool(quoted & extract.body)
        return 12.0 * len(asked & extract.wording) + 1.5 * len(asked & extract.title) + content + kind

    return max(extracts, key=fit, default=None)


def _asked_figure(part: str) -> re.Pattern[str] | None:
    return next((states for asks, states in _ASKED_FIGURES if asks.search(part)), None)


def _rarity(extracts: Sequence[_Extract]) -> Mapping[str, float]:
    counts = Counter(term for extract in extracts for term in extract.body)
    return Counter({term: math.log(1 + len(extracts) / count) for term, count in counts.items()})


def _compose(chosen: Sequence[_Extract]) -> str:
    headers = {match[0] for extract in chosen if (match := _EDITION.search(extract.header))}
    return " ".join(_sentence(extract, name_edition=len(headers) > 1) for extract in chosen)


def _sentence(extract: _Extract, *, name_edition: bool) -> str:
    text = extract.text.rstrip(".;")
    edition = _EDITION.search(extract.header)
    if name_edition and edition:
        text = f"In {edition[0]}, {text[0].lower()}{text[1:]}"
    return f"{text[0].upper()}{text[1:]} [{extract.number}]."


def _terms(text: str) -> frozenset[str]:
    """Words cut to their first letters, so that "limit" is in "limited" and "cancel" in "cancellation"."""
    return frozenset(term if term[0].isdigit() else term[:STEM] for term in query_terms(text))
