"""Corrective retrieval as an example: a pipeline that grades what it retrieved, keeps the strips that are worth it,
and looks in an encyclopedia where the grade is bad; and the same pipeline without all that.

`ragtrace replay --pipeline ragtrace.demo.corrective:vanilla` and `:corrective` ask both over a small invented
encyclopedia, a third of which the index lacks; `python -m ragtrace.demo.corrective FILE` writes its questions. With
your own passages and a real encyclopedia: `Corrective(index, MediaWiki("https://en.wikipedia.org/w/api.php").pages)`.

Source: Yan et al. (2024), "Corrective Retrieval Augmented Generation".
"""

from __future__ import annotations

import atexit
import json
import math
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ragtrace
from ragtrace.coverage.text import content_words, sentences
from ragtrace.demo._generation import DroppedHit
from ragtrace.demo._mediawiki import MediaWiki, WikiApplication, WikiPage, wiki_server
from ragtrace.errors import ConfigurationError
from ragtrace.grading import Action, GradeThresholds, action_of, document_action, refine, strips
from ragtrace.http_client import NoAnswer
from ragtrace.store import GradeLine, Store
from ragtrace.types import RequestRecord, to_builtins

if TYPE_CHECKING:
    from ragtrace.gate import GateReport

__all__ = [
    "THRESHOLDS",
    "Comparison",
    "Corrective",
    "CorrectiveAnswer",
    "Evidence",
    "Grade",
    "MediaWiki",
    "Part",
    "Passage",
    "Search",
    "Vanilla",
    "WhereCell",
    "WordIndex",
    "compare",
    "corrective",
    "vanilla",
    "write_questions",
]

THRESHOLDS: Final = GradeThresholds(upper=0.4, lower=-0.2)
"""For the grades of `WordIndex`, chosen by hand: half of a question's rare words or less are no evidence."""
_SERVICE: Final = "encyclopedia"
_FOUND: Final = 20  # passages of a retrieval
_PACKED: Final = 5  # passages in the prompt where nothing is graded
_READ: Final = 5  # pages of a search; it ends at the first that is CORRECT
_QUOTED: Final = 2  # sentences of an answer
_NOTHING: Final = "Nothing was found."
_PIPELINES: Final = ("vanilla", "corrective")


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage, or one page of the encyclopedia (modality `web`)."""

    chunk_id: str
    text: str
    score: float
    source: str | None = None
    modality: str = "text"


@dataclass(frozen=True, slots=True)
class Part:
    """What the prompt holds of one passage."""

    chunk_id: str
    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What stands in the prompt, and what was left out and why."""

    chunks: list[Part]
    dropped: list[DroppedHit]


@dataclass(frozen=True, slots=True)
class CorrectiveAnswer:
    """An answer; action: what the grades said, None where nothing was graded. is_searched: whether the encyclopedia was
    asked."""

    answer: str
    request_id: str
    action: Action | None = None
    is_searched: bool = False


Grade: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Grades of texts for a question, each in [−1, 1]."""
Search: TypeAlias = Callable[[str], Iterable[WikiPage]]
"""Pages for a question, the likeliest first; they are read one by one. It may raise NoAnswer."""


class WordIndex:
    """Passages by the rare words that they share with a question: BM25 with k1 = 1.2 and b = 0.75, in pure Python.

    passages: id to text. Raises: ConfigurationError for none.
    """

    def __init__(self, passages: Mapping[str, str]) -> None:
        if not passages:
            raise ConfigurationError.of("passages", passages, "at least one")
        self._texts = passages
        self._counts = {name: Counter(content_words(text)) for name, text in passages.items()}
        self._lengths = {name: counts.total() for name, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / len(passages)
        seen = Counter(word for counts in self._counts.values() for word in counts)
        self._rarity = {word: math.log(1 + (len(passages) - n + 0.5) / (n + 0.5)) for word, n in seen.items()}
        self._unknown = math.log(1 + (len(passages) + 0.5) / 0.5)

    def find(self, question: str) -> list[Passage]:
        """The twenty best."""
        words = [word for word in set(content_words(question)) if word in self._rarity]
        scores = {name: sum(self._weight(name, word) for word in words) for name in self._texts}
        best = sorted(scores, key=lambda name: -scores[name])[:_FOUND]
        return [Passage(name, self._texts[name], scores[name]) for name in best]

    def grade(self, question: str, texts: Sequence[str]) -> list[float]:
        """The share of the question's rare words that each text holds, each word by its rarity, from −1 (none) to 1.

        No model of relevance: a text about the same things that does not answer gets the same grade.
        """
        asked = {word: self._rarity.get(word, self._unknown) for word in content_words(question)}
        whole = sum(asked.values())
        held = [sum(asked[word] for word in asked.keys() & set(content_words(text))) for text in texts]
        return [2 * min(part / whole, 1.0) - 1 if whole else -1.0 for part in held]  # sums in another order round

    def quote(self, question: str, texts: Iterable[str]) -> str:
        """The two sentences that share the rarest words with the question, in the order of the texts."""
        asked = set(content_words(question))
        said = [each for text in texts for each in _sentences(text)]
        ranked = sorted(range(len(said)), key=lambda place: -self._fit(asked, said[place]))[:_QUOTED]
        return " ".join(said[place] for place in sorted(ranked)) or _NOTHING

    def _fit(self, asked: set[str], sentence: str) -> float:
        words = set(content_words(sentence))
        return sum(self._rarity.get(word, 0.0) for word in words & asked) / math.sqrt(len(words) + 4)

    def _weight(self, name: str, word: str) -> float:
        count = self._counts[name].get(word, 0)
        return self._rarity[word] * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._lengths[name] / self._mean))


@cache
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(each.text for each in sentences(text))


class Vanilla:
    """Retrieve, put the best passages into the prompt, answer."""

    version = "vanilla-1"

    def __init__(self, index: WordIndex) -> None:
        self._index = index

    @ragtrace.request(query="question")
    def ask(self, question: str) -> CorrectiveAnswer:
        """Answer one question."""
        request = ragtrace.current_request()
        request.set(versions={"pipeline": self.version})
        evidence = self.pack([(each, each.text) for each in self.retrieve(question)[:_PACKED]], {})
        return CorrectiveAnswer(self.generate(question, evidence), request.request_id)

    @ragtrace.retrieve(query="question")
    def retrieve(self, question: str) -> list[Passage]:
        """What the index finds."""
        return self._index.find(question)

    @ragtrace.pack
    def pack(self, kept: Sequence[tuple[Passage, str]], dropped: Mapping[str, str]) -> Evidence:
        """What the prompt holds of each passage. dropped: the reason, by id."""
        parts = [Part(passage.chunk_id, text, text != passage.text) for passage, text in kept]
        return Evidence(parts, [DroppedHit(name, reason) for name, reason in dropped.items()])

    @ragtrace.generate
    def generate(self, question: str, evidence: Evidence) -> str:
        """The answer, quoted from the evidence: put your model here."""
        return self._index.quote(question, (part.text for part in evidence.chunks))


class Corrective(Vanilla):
    """Grades what was retrieved first: CORRECT keeps its best strips, INCORRECT searches instead, AMBIGUOUS does both.

    Where the search finds nothing worth keeping, or does not answer, what was retrieved is kept after all.

    Args:
        search: finds pages elsewhere, such as `MediaWiki(URL).pages`.
        grade: the evaluator; by default the share of the question's rare words (`WordIndex.grade`).
        thresholds: of that evaluator; `ragtrace.grading.fit_upper` fits them.
    """

    version = "corrective-1"

    def __init__(
        self,
        index: WordIndex,
        search: Search,
        *,
        grade: Grade | None = None,
        thresholds: GradeThresholds = THRESHOLDS,
    ) -> None:
        super().__init__(index)
        self._pages = search
        self._grade = grade or index.grade
        self._thresholds = thresholds

    @ragtrace.request(query="question")
    def ask(self, question: str) -> CorrectiveAnswer:
        """Answer one question."""
        request = ragtrace.current_request()
        graded = self.grade(question, self.retrieve(question))
        action = action_of([each.score for each in graded], self._thresholds)
        request.set(versions={"pipeline": self.version})
        request.grade({each.chunk_id: each.score for each in graded}, action=action)
        found = [] if action == "CORRECT" else self._searched(question)
        kept = self._refined(question, [*found, *([] if action == "INCORRECT" else graded)])
        if not kept:
            kept = [(each, each.text) for each in [*graded, *found][:_PACKED]]
        names = {passage.chunk_id for passage, _ in kept}
        dropped = {each.chunk_id: "grade" for each in [*graded, *found] if each.chunk_id not in names}
        answer = self.generate(question, self.pack(kept, dropped))
        return CorrectiveAnswer(answer, request.request_id, action, action != "CORRECT")

    @ragtrace.rerank(candidates="passages")
    def grade(self, question: str, passages: Sequence[Passage]) -> list[Passage]:
        """The passages with their grades as scores, best first."""
        grades = self._grade(question, [each.text for each in passages])
        graded = [replace(each, score=grade) for each, grade in zip(passages, grades, strict=True)]
        return sorted(graded, key=lambda each: -each.score)

    @ragtrace.retrieve(query="question")
    def search(self, question: str) -> list[Passage]:
        """Pages of the encyclopedia up to the first that is CORRECT: candidates of their own. Raises: NoAnswer, where
        it falls silent before the first page; later the pages that it gave count."""
        found: list[Passage] = []
        try:
            for page in islice(self._pages(question), _READ):
                grade = self._grade(question, [page.text])[0]
                found.append(Passage(f"web:{page.title}", page.text, grade, page.url, "web"))
                if document_action(grade, self._thresholds) == "CORRECT":
                    break
        except NoAnswer:
            if not found:
                raise
        return found

    def _searched(self, question: str) -> list[Passage]:
        """The graded pages; none where the encyclopedia does not answer, which the record says of the stage."""
        try:
            return self.grade(question, self.search(question))
        except NoAnswer:
            return []

    def _refined(self, question: str, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
        """The best strips of all passages that are not INCORRECT, joined for each passage in its own order."""
        parts = [
            (passage, passage.text[start:end])
            for passage in passages
            if document_action(passage.score, self._thresholds) != "INCORRECT"
            for start, end in strips([(each.start, each.end) for each in sentences(passage.text)])
        ]
        kept = [parts[place] for place in refine(self._grade(question, [text for _, text in parts]))]
        whole: dict[str, tuple[Passage, str]] = {}
        for passage, text in kept:
            before = whole.get(passage.chunk_id, (passage, ""))[1]
            whole[passage.chunk_id] = (passage, f"{before} {text}".strip())
        return list(whole.values())


def vanilla(question: str) -> str:
    """The example's answer without correction."""
    return _recorded()[0].ask(question).answer


def corrective(question: str) -> str:
    """The example's answer with it."""
    return _recorded()[1].ask(question).answer


def write_questions(file: Path) -> int:
    """Write the example's questions as JSON lines, each with the passage that answers it. Returns how many.

    Raises: OSError.
    """
    lines = [
        json.dumps(
            {
                "id": f"e{number:02}",
                "question": entry["question"],
                "segment": entry["where"],
                "answer": entry["answer"],
                "gold": [f"{'index' if entry['where'] == 'index' else 'web'}:{entry['title']}"],
            }
        )
        for number, entry in enumerate(_entries())
    ]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


@dataclass(frozen=True, slots=True)
class WhereCell:
    """The questions whose evidence is in the same place: how many answers hold the right one, by pipeline, which
    actions were taken, and whom the verdicts of the corrected requests blame."""

    where: str
    questions: int
    right: Mapping[str, int]
    actions: Mapping[str, int]
    blamed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The example without and with correction, and what the gate says of the change."""

    cells: tuple[WhereCell, ...]
    gate: GateReport

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {"cells": [asdict(each) for each in self.cells], "gate": to_builtins(self.gate)}


def compare(store_url: str) -> Comparison:
    """Replay the example's questions by both pipelines into a store, as `vanilla` and `corrective`, in place of earlier
    ones, and compare them by the gate. Raises: ConfigurationError, StoreError."""
    from ragtrace.gate.replay import replay
    from ragtrace.gate.replay_inputs import read_questions
    from ragtrace.gate.runs import run as judged

    with TemporaryDirectory() as folder:
        file = Path(folder) / "questions.jsonl"
        write_questions(file)
        asked = read_questions(file)
    line = GradeLine(
        service=_SERVICE,
        judge="host",
        upper=THRESHOLDS.upper,
        lower=THRESHOLDS.lower,
        wanted=0.9,
        fitted_at=time.time_ns(),
    )
    with Store.open(store_url) as store:
        store.keep_grade_line(line)  # the thresholds of the example's own step
    for name in _PIPELINES:
        replay(asked, f"ragtrace.demo.corrective:{name}", name, store_url, service=_SERVICE, again="restart")
    gate = judged("replay:vanilla", "replay:corrective", store=store_url, service=_SERVICE)
    with Store.open(store_url) as store:
        ids = {name: {row.question: row.request_id for row in store.replayed(name)} for name in _PIPELINES}
        known = store.get_records([request_id for rows in ids.values() for request_id in rows.values()])
        analyses = store.get_analyses(list(ids["corrective"].values()))
    cells = []
    for where in dict.fromkeys(question.segment or "" for question in asked):
        own = [question for question in asked if question.segment == where]
        right = {
            name: sum(str(each.answer) in _answer(known[ids[name][each.id]]) for each in own) for name in _PIPELINES
        }
        corrected = [ids["corrective"][each.id] for each in own]
        taken = (said.action for each in corrected if (said := known[each].graded) is not None)
        stages = (analyses[each].diagnosis.stage for each in corrected if each in analyses)
        actions, blamed = (Counter(str(one) for one in counted if one is not None) for counted in (taken, stages))
        cells.append(WhereCell(where, len(own), right, dict(actions), dict(blamed)))
    return Comparison(tuple(cells), gate)


def _answer(record: RequestRecord) -> str:
    return (record.generation.answer if record.generation else None) or ""


def _entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = _known()["entry"]
    return entries


def _known() -> dict[str, Any]:
    return tomllib.loads(resources.files("ragtrace.demo").joinpath("encyclopedia.toml").read_text("utf-8"))


@cache
def _recorded() -> tuple[Vanilla, Corrective]:
    ragtrace.configure(service=_SERVICE, build="host", capture_content="full")
    return _pipelines()


@cache
def _pipelines() -> tuple[Vanilla, Corrective]:
    """Both over the invented encyclopedia, whose server runs until the process ends."""
    index = WordIndex({f"index:{each['title']}": each["text"] for each in _entries() if each["where"] == "index"})
    running = ExitStack()
    atexit.register(running.close)  # while its threads still run: later it would wait for them forever
    url = running.enter_context(wiki_server(_encyclopedia()))
    return Vanilla(index), Corrective(index, MediaWiki(url).pages)


def _encyclopedia() -> WikiApplication:
    known = _known()
    pages = {each["title"]: each["text"] for each in known["entry"] if each["where"] == "web"}
    pages |= {each["title"]: each["text"] for each in known["near_miss"]}
    return WikiApplication(pages, known["redirects"], known["disambiguations"])


if __name__ == "__main__":
    print(f"{write_questions(Path(sys.argv[1]))} questions")
