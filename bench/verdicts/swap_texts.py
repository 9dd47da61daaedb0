"""Texts as the swaps read them: their sentences, content words, names and `{passage-id}` marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from bench.verdicts.model import Domain, Path, Question

__all__ = [
    "MARK",
    "STOP_WORDS",
    "TOKEN",
    "cited",
    "coverage",
    "holds",
    "marks_in",
    "named_words",
    "names_in",
    "numbers",
    "outside_marks",
    "prompt_text",
    "remarked",
    "resemblance",
    "sentences",
    "stem",
    "unmarked",
    "wanted_ids",
    "words",
]

MARK = re.compile(r"(\s?\{[^\s{}\"]+\})")
TOKEN = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_BREAK = re.compile(
    r"[.!?]+[\"'”’)\]»*]*(?:\s?\{[^\s{}\"]+\})*(?=\s+[^\sa-z])|[。！？]+(?:\s?\{[^\s{}\"]+\})*|\n"  # noqa: RUF001
)
_NO_BREAK = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|art|sec|fig|approx|dr|mrs?|ms|st|prof|[a-z])\.$|^\s*\d+\.$", re.IGNORECASE
)
_DATE = re.compile(r"[\d ]\d\. (?:Jan|Feb|März|Apr|Mai|Ju[nl]|Aug|Sep|Okt|Nov|Dez)")  # 31. März
_NAME = re.compile(r"\b[^\W\d_a-z][\w&'’-]*(?: (?:[A-Z][\w&'’-]*|\d+\b(?![.,]\d)))*")
STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being but by can comment could das der
    describe did do does each est explain find for from für get give had has have he her his how i ich if in into
    is it its know list many may me more most much must my name no not of on one only or our over please quand
    quel quelle quels return say shall she should show so some such summarize tell than that the their them then
    there these they this those to translate und under until up us wann was we welche welcher welches wer were
    what when where whether which while who whom whose why wie will with within without wo would write wurde yes
    you your""".split()
)


def sentences(text: str) -> list[str]:
    """The text's sentences and lines, each with the white space behind it; together they are the text."""
    pieces: list[str] = []
    start = 0
    for found in _BREAK.finditer(text):
        end = found.end()
        if end <= start or _NO_BREAK.search(text[start : found.start() + 1]) or _DATE.match(text, found.start() - 2):
            continue
        end += len(text[end:]) - len(text[end:].lstrip())
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]] if start < len(text) else pieces


def stem(token: str) -> str:
    """A word in lower case, without a plural's or a genitive's s; a number without separators of thousands."""
    plain = token.lower().replace("’", "'").removesuffix("'s")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        return plain.replace(",", "")
    return plain[:-1] if len(plain) > 3 and plain.endswith("s") and not plain.endswith("ss") else plain


@lru_cache(maxsize=65536)
def words(text: str) -> frozenset[str]:
    """The content words and numbers of a text, in lower case and without a plural's s."""
    tokens = TOKEN.findall(MARK.sub("", text))
    return frozenset(stem(token) for token in tokens if token.lower() not in STOP_WORDS)


def numbers(text: str) -> frozenset[str]:
    """The words of a text that begin with a digit."""
    return frozenset(word for word in words(text) if word[0].isdigit())


def coverage(claim: str, text: str) -> float:
    """The share of the claim's content words that the text has; 0 for a claim without any."""
    claimed = words(claim)
    return len(claimed & words(text)) / len(claimed) if claimed else 0.0


def resemblance(one: str, other: str) -> float:
    """How many of all content words two texts share, 0 to 1."""
    either = words(one) | words(other)
    return len(words(one) & words(other)) / len(either) if either else 0.0


def holds(text: str, claim: str) -> bool:
    """Whether a text has nearly all words of a claim, and all of its numbers."""
    return coverage(claim, text) >= 0.8 and numbers(claim) <= numbers(text)


def names_in(text: str, *, inside_only: bool = False) -> list[str]:
    """The capitalized phrases of a text, each once. inside_only: leave out those that begin a sentence."""
    found: dict[str, None] = {}
    for sentence in sentences(MARK.sub("", text)):
        for match in _NAME.finditer(sentence):
            parts = match[0].split(" ")
            begins = not sentence[: match.start()].strip(" \"'“(-*•#>|")
            while parts and parts[0].lower() in STOP_WORDS:
                parts, begins = parts[1:], False
            if not parts or not parts[0][0].isupper() or len(parts[0]) < 2 or (begins and inside_only):
                continue
            found[re.sub(r"['’]s?$", "", " ".join(parts))] = None
    return list(found)


def named_words(question: Question) -> frozenset[str]:
    """The words of a question that name something: capitalized ones, numbers, and the values of its facets."""
    named = " ".join([*names_in(question.question), *(facet.value for facet in question.facets)])
    return words(named) | numbers(question.question)


def marks_in(text: str, domain: Domain) -> list[str]:
    """The passages that a text cites, in its order."""
    return [mark for piece in MARK.findall(text) if (mark := piece.strip()[1:-1]) in domain.passages]


def remarked(text: str, domain: Domain, new_mark: Callable[[str], str | None]) -> str:
    """The text with `new_mark` of each mark in its place; None takes it out."""

    def put(found: re.Match[str]) -> str:
        mark = found[0].strip()[1:-1]
        if mark not in domain.passages:
            return found[0]
        put_in = new_mark(mark)
        return "" if put_in is None else found[0].replace("{" + mark + "}", "{" + put_in + "}")

    return MARK.sub(put, text)


def unmarked(text: str, domain: Domain) -> str:
    """The text without its marks."""
    return remarked(text, domain, lambda mark: None)


def outside_marks(text: str, edit: Callable[[str], str]) -> str:
    """The text with everything between its marks edited."""
    pieces = MARK.split(text)
    return "".join(piece if at % 2 else edit(piece) for at, piece in enumerate(pieces))


def cited(sentence: str, passage_id: str) -> str:
    """The sentence with a mark before its full stop."""
    stripped = sentence.strip()
    body = stripped.rstrip(".!?")
    return f"{body} {{{passage_id}}}{stripped[len(body) :] or '.'}"


def prompt_text(path: Path) -> str:
    """All that stands in the prompt."""
    return "\n".join(chunk.text for chunk in path.packed)


def wanted_ids(question: Question) -> frozenset[str]:
    """All passages that any group of the question's evidence names."""
    return frozenset(passage_id for group in question.evidence for passage_id in group)
