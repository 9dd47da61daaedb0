"""Query Coverage: how much of what the question requires do the retrieved candidates hold?

A question is read in its parts, with the kind of value that would answer each. Facets that one chunk can meet together
are combined: a comparison of two years needs a chunk for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import permutations, product
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragtrace.coverage.facets import MET, facet_in_text, facet_matrix, judge_facet
from ragtrace.coverage.values import Value
from ragtrace.types import Candidate, Facet, FacetMatch, replace

__all__ = [
    "AnswerKind",
    "Asked",
    "asked_for",
    "expected_answer",
    "facet_combinations",
    "holds_asked",
    "joint_query_coverage",
    "match_facets",
    "needs_retrieval",
    "query_coverage",
    "sub_questions",
]

Matrix = NDArray[np.float64]


def query_coverage(
    facets: Sequence[Facet], candidates: Sequence[Candidate], *, k: int | None = None, matrix: Matrix | None = None
) -> float | None:
    """QC@k = Σ w_f · max_{c ≤ k} match(f, c) / Σ w_f, in [0, 1]; None without facets, and where candidates that could
    not be read might raise it.

    candidates: best first; k: how many of them count (all by default); matrix: `facet_matrix` of the same arguments,
    when it is known already. Different candidates may meet different facets.
    Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §3.
    """
    if not facets:
        return None
    table = _table(facets, candidates, k, matrix)
    if not table.shape[1]:
        return 0.0
    least, most = (float(_weighted(facets, np.nan_to_num(table, nan=unread).max(axis=1))) for unread in (0.0, 1.0))
    return least if least == most else None


def joint_query_coverage(
    facets: Sequence[Facet], candidates: Sequence[Candidate], *, k: int | None = None, matrix: Matrix | None = None
) -> float | None:
    """The best single candidate's weighted match max_c Σ w_f · match(f, c) / Σ w_f, in [0, 1]; None without
    facets, and where a candidate that could not be read might be that one.

    Low while Query Coverage is high: each constraint is met somewhere, but by no one chunk (the right product in the
    wrong year). Where the facets compare (two years that no chunk meets together), each side is asked of its own best
    candidate, and the worse side counts. Never above Query Coverage where nothing is compared.
    """
    if not facets:
        return None
    table = _table(facets, candidates, k, matrix)
    if not table.shape[1]:
        return 0.0
    sides = facet_combinations(facets, _known(table), names_apart=True)
    least, most = (_worst_side(facets, np.nan_to_num(table, nan=unread), sides) for unread in (0.0, 1.0))
    return least if least == most else None


def match_facets(
    facets: Sequence[Facet],
    candidates: Sequence[Candidate],
    *,
    rewritten: str | None = None,
    matrix: Matrix | None = None,
) -> tuple[FacetMatch, ...]:
    """Each facet's best match, the candidate that gave it, and whether a rewritten query still states the facet.

    A facet that none meets says which candidate states another value instead, if one does.
    """
    table = _table(facets, candidates, None, matrix)
    known = _known(table)
    found = []
    for index, facet in enumerate(facets):
        row = known[index]
        best = int(row.argmax()) if row.size else -1
        met = best >= 0 and row[best] > 0
        match = FacetMatch(
            facet=facet,
            match=float(row[best]) if met else 0.0,
            chunk_id=candidates[best].chunk_id if met else None,
            rank=candidates[best].rank if met else None,
            in_rewrite=None if rewritten is None else facet_in_text(facet, rewritten),
        )
        found.append(match if match.match >= MET else _unmet(match, candidates, table, index))
    return tuple(found)


def _unmet(match: FacetMatch, candidates: Sequence[Candidate], table: Matrix, index: int) -> FacetMatch:
    """`match` with what is stated instead, by the first of the candidates that meet the other facets best."""
    if np.isnan(table[index]).any():
        return replace(match, reason="no_candidate_text")
    others = np.delete(_known(table), index, axis=0).sum(axis=0)
    for column in np.argsort(-others, kind="stable"):
        judgment = judge_facet(match.facet, candidates[int(column)])
        if judgment.contradicted:
            return replace(match, contradicted_by=candidates[int(column)].chunk_id, given=judgment.given)
    return match


def _table(facets: Sequence[Facet], candidates: Sequence[Candidate], k: int | None, matrix: Matrix | None) -> Matrix:
    table = facet_matrix(facets, candidates) if matrix is None else matrix
    return table[:, : len(candidates) if k is None else k]


def _known(table: Matrix) -> Matrix:
    return np.nan_to_num(table, nan=0.0)


def _worst_side(facets: Sequence[Facet], table: Matrix, sides: Sequence[tuple[int, ...]]) -> float:
    return min(_best_candidate([facets[row] for row in rows], table[list(rows)]) for rows in sides)


def _best_candidate(facets: Sequence[Facet], table: Matrix) -> float:
    return float(_weighted(facets, table).max())


def _weighted(facets: Sequence[Facet], matches: Matrix) -> Matrix:
    """Weighted means over the facets (axis 0), in [0, 1]."""
    weights = np.array([facet.weight for facet in facets])
    return np.asarray(np.clip(weights @ matches / weights.sum(), 0.0, 1.0), dtype=np.float64)


_EXCLUSIVE: Final = ("time", "version", "jurisdiction")  # kinds of which a chunk commonly has one
_MOST: Final = 8
_PAIRED: Final = 4


def facet_combinations(
    facets: Sequence[Facet], matrix: NDArray[np.float64], *, names_apart: bool = False
) -> list[tuple[int, ...]]:
    """Rows of `facets` that are asked of one chunk together, one tuple for each side of a comparison.

    Times, versions and places of a question that no candidate meets together are alternatives; everything else is
    asked of every chunk. As many times as versions are taken as pairs, those together that some candidate meets best
    ("edition 3 of 2022, edition 4 of 2024"). names_apart: so are names that were read from the question, since several
    may belong to several parts of it. matrix: `facet_matrix`, shape (n_facets, n_candidates), without unknown cells.
    One combination holds all facets when there is nothing to compare, or more than eight would result.
    """
    kinds: dict[str, list[int]] = {}
    for row, facet in enumerate(facets):
        kinds.setdefault(facet.kind, []).append(row)
    groups: list[list[tuple[int, ...]]] = [
        [(row,) for row in rows] if kind in _EXCLUSIVE and _apart(matrix[rows]) else [tuple(rows)]
        for kind, rows in kinds.items()
    ]
    if names_apart and "entity" in kinds and all(facets[row].source == "query" for row in kinds["entity"]):
        groups[list(kinds).index("entity")] = _names_apart(kinds["entity"], matrix)
    choices: list[tuple[tuple[int, ...], ...]] = list(product(*_paired(groups, matrix)))
    combinations = [tuple(row for rows in choice for row in rows) for choice in choices]
    return combinations if len(combinations) <= _MOST else [tuple(range(len(facets)))]


def _paired(groups: list[list[tuple[int, ...]]], matrix: NDArray[np.float64]) -> list[list[tuple[int, ...]]]:
    """The groups, those with equally many sides as one group of their best pairs."""
    paired: list[list[tuple[int, ...]]] = []
    for group in groups:
        place = next((at for at, other in enumerate(paired) if 1 < len(group) == len(other) <= _PAIRED), None)
        if place is None:
            paired.append(group)
        else:
            orders = [[(*one, *other) for one, other in zip(paired[place], order, strict=True)]
                      for order in permutations(group)]  # fmt: skip
            paired[place] = max(orders, key=lambda sides: sum(_together(matrix[list(rows)]) for rows in sides))
    return paired


def _together(matches: NDArray[np.float64]) -> float:
    """How well the best candidate meets all of these facets."""
    return float(matches.mean(axis=0).max(initial=0.0))


def _names_apart(rows: Sequence[int], matrix: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Each name that some candidate has by itself, where none has all of these; with the names that none has."""
    found = [row for row in rows if matrix[row].max(initial=0.0) > 0]
    absent = tuple(row for row in rows if row not in found)
    return [(row, *absent) for row in found] if _apart(matrix[found]) else [tuple(rows)]


def _apart(matches: NDArray[np.float64]) -> bool:
    """Whether there are several facets and no candidate meets them all."""
    return len(matches) > 1 and not (matches.shape[1] and matches.min(axis=0).max() > 0)


Asked: TypeAlias = Literal["time", "money", "share"]
AnswerKind: TypeAlias = Literal[
    "duration", "time", "money", "share", "number", "person", "place", "reason", "manner", "verdict"
]
"""What answers a question: a verdict is a yes or no, a manner the steps of a "how do I"."""

_ASKS: Final = r"(?:what|which|when|how|who|where|why|whether|does|do|is|are|can|must|may)\b"
_BOUNDARY: Final = re.compile(
    rf"""(?:[,;]?(?<!\s)\s+(?:and|or|but)\s+|[,;]\s+)
         (?=(?:(?:for|up\s+to|above|within|after|until|from|at|by|in|under|to|on)\s+)?{_ASKS})
       | (?<=[.?!])\s+""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION: Final = re.compile(rf"\b{_ASKS}", re.IGNORECASE)
_KINDS: Final[tuple[tuple[Asked, re.Pattern[str]], ...]] = (
    (
        "time",
        re.compile(
            r"""\bhow\s+long\b|\bhow\s+many\s+(?:\w+\s+){0,2}?(?:minutes|hours|days|weeks|months|years)\b
                |\bwhen\b|\bdeadline\b|\bperiod\b""",
            re.IGNORECASE | re.VERBOSE,
        ),
    ),
    (
        "money",
        re.compile(
            r"\bhow\s+much\b|\bamount\b|\blimit\b|\bpays?\b|\bprice\b|\bcosts?\b|\bfees?\b|\bdeductible\b|\bpremium\b",
            re.IGNORECASE,
        ),
    ),
    ("share", re.compile(r"\bper\s?cent(?:age)?\b|\brate\b|%", re.IGNORECASE)),
)
_ASKING: Final = r"(?:^|[,.;:?!]\s*|\b(?:and|or|but|from|to|by|until|since)\s+)"  # where a part of a question begins
_PATTERNS: Final[tuple[tuple[AnswerKind, str], ...]] = (
    ("duration",
     r"""\bhow\s+(?:long|soon|often|quickly|much\s+time|(?:far|much)\s+(?:\w+\s+){0,2}?(?:before|in\s+advance|ahead))\b
         |\bhow\s+many\s+(?:\w+\s+){0,2}?(?:seconds|minutes|hours|days|weeks|months|years|nights)\b"""),
    ("time",
     rf"""{_ASKING}when(?:['’]s)?(?:\W*$|\s+(?:to|is|are|was|were|do|does|did|can|may|must|should|will|would|has|have)\b)
         |^\W*when\b
         |\b(?:what|which)\s+(?:time|date|day|year|month|hours|quarter|deadline)\b|\bwhat(?:['’]s|\s+is|\s+are)\s+the\s+
         (?:\w+\s+){{0,2}}?(?:deadline|date|opening\s+hours|time)\b | \bopening\s+hours\b"""),
    ("share",
     r"\bper\s?cent(?:age)?\b|\b(?:what|which)\s+(?:\w+\s+){0,2}?(?:share|rate|proportion|fraction)\b|%"),
    ("manner",
     r"""\bhow\s+(?:do|does|did|can|could|should|would|to|must)\b
         |\bwhat(?:\s+\w+)?\s+(?:do|should|must|can)\s+(?:i|we|you|one)\s+do\b|\bwhat\s+(?:are\s+the\s+)?steps\b"""),
    ("money",
     r"""\bhow\s+(?:much|expensive)\b.{0,60}?\b(?:costs?|pay|paid|charged?|earn|spend|refund|salary)\b
         |\b(?:what|which)\b.{0,60}?\b(?:prices?|costs?|fees?|fares?|charges?|deductible|premium|salary|deposit|rent)\b
         |^\W*(?:\w+\W+){0,3}?(?:price|costs?|fee|fare|charge|deposit|rent)\b(?!.*\b(?:is|are|can|may|do|does)\b)"""),
    ("number",
     r"""\bhow\s+(?:much|many|big|large|high|tall|wide|deep|heavy|far|old|fast|hot|cold|warm|strong|thick|loud)\b
         |\bwhat(?:['’]s|\s+is|\s+was|\s+are)?\s+(?:\w+\s+){0,3}?(?:number|size|height|weight|length|width|dose
          |dosage|temperature|capacity|limit|maximum|minimum|amount|revenue|profit|margin|speed|distance|version|port
          |code)\b"""),
    ("person", rf"{_ASKING}who(?:m|se|['’]s)?\b"),
    ("place",
     rf"""{_ASKING}where\b|\bwhich\s+(?:city|country|room|place|address|station|town|office|floor|street)\b
         |\bwhat(?:['’]s|\s+is)\s+the\s+address\b"""),
    ("reason", r"\bwhy\b|\bhow\s+come\b|\bwhat\b.{0,30}?\b(?:reasons?|causes?|caused)\b"),
)  # fmt: skip
_EXPECTED: Final = tuple((kind, re.compile(pattern, re.IGNORECASE | re.VERBOSE)) for kind, pattern in _PATTERNS)
_AUXILIARY: Final = (
    r"(?:is|are|am|was|were|does|do|did|can|could|may|must|should|shall|will|would|has|have|had)(?:n['’]t)?"
)
_VERDICT: Final = re.compile(
    rf"""(?:^|[.?!;:,]\s+|\b(?:and|so|but|then)\s+)(?:\w+\W+){{0,2}}?{_AUXILIARY}\s+
        (?:i|we|you|they|he|she|it|there|this|that|these|those|the|an?|my|our|your|any|all|every|some|(?-i:[A-Z])\w*)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_WORD_OF_QUESTION: Final = re.compile(r"\b(?:what|which|who|whom|whose|when|where|why|how)\b", re.IGNORECASE)
_PERIODS: Final = frozenset(("second", "minute", "hour", "day", "week", "month", "year"))


_COURTESY: Final = re.compile(
    r"""\b(?:hi|hello|hey|hiya|greetings|good\s+(?:morning|afternoon|evening|day|night)|guten\s+(?:morgen|tag|abend)
        |hallo|hola|bonjour|ciao|salut|thanks?(?:\s+you)?|thx|ty|cheers|merci|danke|gracias|grazie|bye|goodbye
        |have\s+a\s+(?:nice|good|great)\s+\w+|ok(?:ay)?|perfect|great|super|cool|nice|awesome|wonderful|got\s+it|understood
        |no\s+problem|never\s?mind|that['’]?s\s+all|all\s+good|yes|no|sure|fine|please|there|everyone|all|so\s+much
        |(?:for\s+)?(?:the|your|all\s+your)\s+(?:quick\s+|kind\s+|fast\s+)?(?:help|info|information|patience|time|reply|answers?|support)
        |(?:that|this)\s+(?:answers|answered|solves|solved)\s+(?:my\s+question|it|that)|you(?:['’]ve|\s+have)\s+been\s+(?:\w+\s+)?helpful
        |(?:very|so|really|super)\s+(?:helpful|kind|useful)|helpful|good\s+(?:job|one|to\s+know)|well\s+done|nice\s+one|brilliant|excellent
        |lovely|amazing|(?:i\s+)?(?:really\s+)?appreciate\s+(?:it|that|this|your\s+help)|(?:much\s+)?appreciated|no\s+worries|you\s+too
        |same\s+to\s+you|(?:talk\s+to|see)\s+(?:you|ya)(?:\s+(?:later|soon|tomorrow|around))?|that['’]?s\s+(?:it|everything|great|perfect|fine|what\s+i\s+needed
        |exactly\s+what\s+i\s+needed)|that\s+was\s+(?:quick|fast|easy|all|helpful|great)|wow|is\s+any(?:one|body)\s+(?:there|here)|are\s+you\s+there(?=\W*$)
        |can\s+you\s+help(?:\s+me)?|i\s+(?:have|had)\s+a\s+question|i\s+need\s+(?:some\s+)?help
        |very\s+much|a\s+lot|again|for\s+your\s+help|for\s+now|that\s+helps?(?:ed)?|how\s+are\s+you|how['’]s\s+it\s+going
        |wie\s+geht['’]?s|haha+|lol)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_ABOUT_TALK: Final = re.compile(
    r"""^\W*(?:(?:are|am)\s+(?:you|i\s+talking\s+to)\s+(?:\w+\s+){0,3}?(?:human|robot|machine|bot|person|ai)\b
        |(?:haha+\W+|lol\W+|wow\W+)*you(?:\s+are|['’]re)\s+(?:\w+\s+){0,2}?(?:faster|quicker|smarter|nicer|better|friendlier|funnier)\s+than\b
        |(?:who|what)\s+are\s+you\b\W*$ | what(?:['’]s|\s+is)\s+your\s+name\W*$ | what\s+can\s+you\s+do\W*$
        |who\s+(?:made|built|created|programmed)\s+you\W*$ | how\s+old\s+are\s+you\W*$
        | do\s+you\s+remember\s+my\b | tell\s+me\s+a\s+joke\b
        |(?:write|compose)\s+(?:me\s+)?a\s+(?:[\w-]+\s+)?(?:poem|haiku|joke|limerick)\b
        |you(?:\s+are|['’]re)\s+(?:so\s+|very\s+)?(?:useless|great|funny|helpful|wrong|awesome|the\s+best)\b
        |what\s+is\s+[\d.,\s%+*/×÷x-]{1,40}(?:of\s+[\d.,]+)?\W*$
        |(?:please\s+)?(?:translate|rewrite|rephrase|reword|proofread|correct|fix|shorten|summari[sz]e|simplify|make)\s+
         (?:(?:this|that|it|the\s+(?:spelling|grammar|last|above))\b|(?:into|to)\s+\w+\b[^"“„]{0,20}["“„]))""",
    re.IGNORECASE | re.VERBOSE,
)


@lru_cache(maxsize=1024)
def needs_retrieval(query: str) -> bool:
    """Whether a request asks for anything that could be retrieved.

    It does not where it is a courtesy and nothing else ("hello", "thanks, bye"), speaks of the talk itself ("are you a
    person?", "shorten that"), or brings its own material ("translate …").
    """
    if _ABOUT_TALK.match(query):
        return False
    rest = _COURTESY.sub(" ", query)
    return not _COURTESY.search(query) or any(map(str.isalnum, rest))


def sub_questions(question: str) -> tuple[str, ...]:
    """The parts of `question` that ask for something of their own, as written; the whole question when it is one.

    "What is the limit, and when must a claim be reported?" has two parts. Statements beside the parts are dropped.
    """
    parts = [part for part in _BOUNDARY.split(question) if part.strip()]
    asking = tuple(part for part in parts if _QUESTION.search(part))
    return asking if len(asking) > 1 else (question,)


@lru_cache(maxsize=1024)
def asked_for(question: str) -> Asked | None:
    """The kind of value that answers `question`: a time or period, money, a share; None when it asks for no value."""
    return next((kind for kind, pattern in _KINDS if pattern.search(question)), None)


@lru_cache(maxsize=1024)
def expected_answer(question: str) -> AnswerKind | None:
    """What kind of answer one part of a question asks for; None where its words do not tell ("What is covered?")."""
    kind = next((kind for kind, pattern in _EXPECTED if pattern.search(question)), None)
    if kind is not None:
        return kind
    verdict, word = _VERDICT.search(question), _WORD_OF_QUESTION.search(question)
    return "verdict" if verdict and not (word and word.start() < verdict.start()) else None


def holds_asked(kind: Asked | None, given: Iterable[Value]) -> bool:
    """Whether one of the values `given` is of the kind asked for; true when none is asked for."""
    if kind is None:
        return True
    return any(_is(kind, value) for value in given)


def _is(kind: Asked, value: Value) -> bool:
    if kind == "time":
        return value.dates is not None or value.unit in _PERIODS
    if kind == "share":
        return value.unit == "%"
    return len(value.unit) == 3 and value.unit.isupper()
