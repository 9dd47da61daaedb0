"""Words of an answer that state nothing of the matter: frames that lead on from one statement, and courtesies."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.text import stem

__all__ = ["CHATTER", "FRAME_WORDS", "mentions_blanked"]

FRAME_WORDS: Final = frozenset(
    stem(word)
    for word in """according accordingly accurate additional additionally also answer article based certain conclusion
    confidently context could describe described determine different document documents enough especially
    example explain explained first following furthermore general generally given help hence however
    important importantly include included includes including indicate indicates information know likely
    many may mention mentioned mentions might moreover most necessary note noted notes original overall
    passage passages provide provided provides question relevant repeat repeats require same second see
    several solely some source sources specifically state stated states such sufficient suggest suggests
    summary text therefore third thus typically unable unavailable usually various well""".split()
)
"""Stems of the words that lead from one statement to the next or point to the evidence."""

CHATTER: Final = re.compile(
    r"""^(?:hi|hello|hey|dear\b.*|sure|certainly|of\s+course|thanks?(?:\s+you)?(?:\s+for\b[^,;:.]*)?|great\s+question|you['’]re\s+welcome
        |good\s+luck\b.*|(?:sure|certainly|of\s+course)?[,!]?\s*i(?:\s+can|['’]ll|\s+will|['’]d\s+be\s+(?:happy|glad)\s+to)
         \s+(?:\w+\s+)?(?:help|assist|explain)\b.*
        |(?:i['’]?\s?a?m\s+)?(?:so\s+|very\s+|really\s+)?sorry(?:\s+(?:about|for|to\s+hear)\b[^,;:]*)?
        |(?:my\s+|our\s+|we\s+)?apologi(?:es|ze|se)\b[^,;:]*|(?:happy|glad)\s+to\s+help\b[^,;:]*|no\s+problem|absolutely|sounds\s+good
        |i\s+hope\s+(?:this|that|you)\b.*|(?:good|glad|nice|great)\s+(?:that|to)\b[^.]*!|let\s+me\s+know\b.*|please\s+(?:let|feel|contact)\b.*|in\s+summary|sources?|answer)
        [\s,.!:]*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""A courtesy, or a word that only leads on."""

_MENTION: Final = re.compile(
    r"\b(?:passage|document|doc|source|chunk|context)s?\s+#?\d{1,3}(?:\s*(?:,|and|&|or|to|-)\s*#?\d{1,3})*",
    re.IGNORECASE,
)


_CONFIDENCE: Final = re.compile(
    r"""["']?\b(?:confidence|certainty|probability|likelihood|relevance|score)(?:[_ -]?(?:score|level|value))?["']
        \s*:\s*["']?(?:0?\.\d+|[01](?:\.\d+)?|\d{1,3}(?:\.\d+)?\s?%|high|medium|low)["']?(?=\s*[,}\]\n]|\s*$)""",
    re.IGNORECASE | re.VERBOSE,
)
_FIELD: Final = re.compile(r"""["']\s*:""")


def mentions_blanked(text: str) -> str:
    """`text` with what states nothing of the matter blanked out, every character in its place: names of pieces of
    evidence ("passages 1 and 3"), and fields of JSON in which an answer says how sure it is."""
    if len(_FIELD.findall(text)) > 1 or not text.lstrip().startswith("{"):  # the only field is the answer
        text = _CONFIDENCE.sub(_blank, text)
    return _MENTION.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())
