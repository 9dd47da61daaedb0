"""Questions in parts, and the kind of value that would answer each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from ragtrace.coverage.values import Value

__all__ = ["AnswerKind", "Asked", "asked_for", "expected_answer", "holds_asked", "needs_retrieval", "sub_questions"]

Asked: TypeAlias = Literal["time", "money", "share"]
AnswerKind: TypeAlias = Literal[
    "duration", "time", "money", "share", "number", "person", "place", "reason", "manner", "verdict"
]
"""What answers a question: a verdict is a yes or no, a manner the steps of a "how do I"."""

_ASKS: Final = r"(?:what|which|when|how|who|where|why|whether|does|do|is|are|can|must|may)\b"
_BOUNDARY: Final = re.compile(
    rf"""(?:[,;]?\s+(?:and|or|but)\s+|[,;]\s+)
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
