"""What an answer says about itself and its evidence, and not about the matter: frames, refusals, courtesies."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.text import stem

__all__ = ["ABSTAINS", "CHATTER", "FRAME_WORDS", "mentions_blanked"]

_EVIDENCE: Final = (
    r"(?:passages?|documents?|contexts?|texts?|sources?|articles?|excerpts?|snippets?|information|evidence|materials?)"
)

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

ABSTAINS: Final = re.compile(
    rf"""\b(?:i|we)\s+(?:do\s+not|don['’]t|can\s?not|can['’]t|could\s+not|couldn['’]t|am\s+unable|are\s+unable|was\s+unable)
        \s+(?:\w+\s+){{0,2}}?(?:know|find|answer|determine|tell|say|locate|provide|give|to)
    | \b(?:unable|not\s+able|impossible|not\s+possible|difficult)\s+to\s+(?:\w+\s+){{0,2}}?
        (?:answer|determine|provide|give|say|tell|find|conclude|confirm|identify)
    | \b(?:not|n['’]t|no)\s+(?:\w+\s+){{0,3}}?(?:enough|sufficient)\s+(?:information|context|evidence|details?)
    | \b{_EVIDENCE}\s+(?:\w+\s+){{0,3}}?(?:do(?:es)?\s+not|do(?:es)?n['’]t|did\s+not|didn['’]t)\s+(?:\w+\s+)?
        (?:contain|mention|provide|say|state|include|specify|answer|give|explain|describe|discuss|address|offer|indicate)
    | (?:\bnot|n['’]t)\s+(?:\w+\s+){{0,2}}?(?:mentioned|provided|specified|stated|explained
        |described|discussed|addressed)\s+(?:\w+\s+){{0,2}}?(?:in|by|within)\s+(?:\w+\s+){{0,3}}?{_EVIDENCE}
    | \b(?:is|are|was|were|have|has|found|with)\s+no\s+(?:\w+\s+){{0,3}}?(?:information|mention|evidence|explanation)\b
    | \bno\s+(?:relevant\s+)?(?:information|answer|evidence|passage)\s+(?:\w+\s+){{0,3}}?(?:found|available|provided)
    | \b(?:need|consult)\s+(?:\w+\s+){{0,2}}?(?:more|further|additional|other)\s+(?:\w+\s+)?
        (?:information|context|sources?)
    | \b(?:can\s?not|can['’]t|could\s+not|couldn['’]t)\s+be\s+(?:\w+\s+)?(?:answered|determined)
    | \banswer\s+(?:can\s?not|can['’]t|could\s+not|couldn['’]t)\s+be\b
    | \bunanswerable\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""A refusal, or a statement that the evidence is silent."""

CHATTER: Final = re.compile(
    r"""^(?:hi|hello|hey|dear\b.*|sure|certainly|of\s+course|thanks?(?:\s+you)?|great\s+question|you['’]re\s+welcome
        |good\s+luck\b.*|(?:sure|certainly|of\s+course)?[,!]?\s*i(?:\s+can|['’]ll|\s+will|['’]d\s+be\s+(?:happy|glad)\s+to)
         \s+(?:\w+\s+)?(?:help|assist|explain)\b.*
        |i\s+hope\s+(?:this|that)\b.*|let\s+me\s+know\b.*|please\s+(?:let|feel|contact)\b.*|in\s+summary|sources?|answer)
        [\s,.!:]*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""A courtesy, or a word that only leads on."""

_MENTION: Final = re.compile(
    r"\b(?:passage|document|doc|source|chunk|context)s?\s+#?\d{1,3}(?:\s*(?:,|and|&|or|to|-)\s*#?\d{1,3})*",
    re.IGNORECASE,
)


def mentions_blanked(text: str) -> str:
    """`text` with what names a piece of evidence ("passages 1 and 3") blanked out, every character in its place."""
    return _MENTION.sub(lambda match: " " * len(match.group()), text)
