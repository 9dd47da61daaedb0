"""What an answer says about itself and its evidence, and not about the matter: frames, refusals, courtesies."""

from __future__ import annotations

import re
from typing import Final

from ragtrace.coverage.text import stem

__all__ = ["ABSTAINS", "CHATTER", "FRAME_WORDS", "mentions_blanked"]

_EVIDENCE: Final = (
    r"(?:passages?|documents?|documentation|docs|contexts?|texts?|sources?|articles?|excerpts?|snippets?|information"
    r"|evidence|materials?|pages?|knowledge\s+base|help\s+cent(?:er|re))"
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

_NOT: Final = r"(?:\s+not|n['’]t)"
_CANNOT: Final = r"(?:can\s?not|can['’]t|could\s+not|couldn['’]t)"
_FEW: Final = r"(?:\w+\s+){0,3}?"
_KNOWLEDGE: Final = r"(?:information|details?|data|answers?|records?|mention|knowledge)"

ABSTAINS: Final = re.compile(
    rf"""\b(?:i|we)\s+(?:do{_NOT}|did{_NOT})\s+(?:\w+\s+){{0,2}}?(?:know|find)\b
    | \b(?:i|we)\s+(?:do{_NOT}|did{_NOT})\s+{_FEW}(?:have|see)\s+(?:\w+\s+){{0,4}}?
        (?:{_KNOWLEDGE}\b|access\s+to\s+(?:the|that|this|your|any|information)\b)
    | \b(?:i|we)\s+have\s+no\s+(?:\w+\s+){{0,2}}?(?:{_KNOWLEDGE}|idea)\b
    | \b(?:i|we)\s+(?:{_CANNOT}|(?:am|are|was|were)\s+unable\s+to)\s+(?:\w+\s+){{0,2}}?
        (?:find|answer|determine|tell|say|locate|confirm|verify|(?:help|assist)(?:\s+you)?\s+with)\b
    | \bi\s+{_CANNOT}\s+{_FEW}(?:give|provide)\b
    | \bwe\s+(?:{_CANNOT}|do{_NOT})\s+{_FEW}(?:give|provide)\s+{_FEW}{_KNOWLEDGE}\b
    | \bi\s*(?:['’]m|\s+am)\s+(?:not\s+(?:sure|certain|aware)|unsure)\b
    | (?:\bunable|\bnot\s+able|n['’]t\s+able|\bimpossible|\bnot\s+possible|\bdifficult)\s+to\s+(?:\w+\s+){{0,2}}?
        (?:answer|determine|provide|give|say|tell|find|conclude|confirm|identify)\b
    | (?:(?:\b(?:not|no|lacks?)|n['’]t)\s+{_FEW}(?:enough|sufficient)|\binsufficient)\s+
        (?:information|context|evidence|details?)\b
    | \b{_EVIDENCE}\s+{_FEW}(?:do|does|did){_NOT}\s+(?:\w+\s+)?
        (?:contain|mention|provide|say|state|include|specify|answer|give|explain|describe|discuss|address|offer|indicate
        |cover|list|reveal|disclose|show|clarify|detail|tell)\b
    | \b(?:none\s+of\s+(?:the\s+)?{_FEW}|nothing\s+(?:in|within|from)\s+{_FEW}){_EVIDENCE}\b
    | \b{_EVIDENCE}\s+{_FEW}(?:has|have|contains?|provides?|says?|holds?|gives?)\s+(?:nothing|no)\s+
        (?:\w+\s+){{0,2}}?(?:on|about|of|regarding|concerning)\b
    | (?:\bnot|n['’]t)\s+(?:\w+\s+){{0,2}}?(?:mentioned|provided|specified|stated|explained|described|discussed
        |addressed|contained|covered|included|listed|found|available|given)\s+(?:\w+\s+){{0,2}}?(?:in|by|within|from)\s+{_FEW}
        {_EVIDENCE}\b
    | \b(?:is|are|was|were){_NOT}\s+(?:in|within|part\s+of)\s+{_FEW}{_EVIDENCE}\b
    | \b(?:is|are|was|were|have|has|found|with|['’]s)\s+no\s+{_FEW}(?:information|mention|explanation)
        (?=\s*(?:[.,;!]|$|(?:about|on|of|regarding|concerning|in|within|as|that|to|for|whether|available|provided)\b))
    | \bno\s+evidence\s+{_FEW}(?:in|within)\s+{_FEW}{_EVIDENCE}\b
    | \bno\s+{_FEW}(?:information|answers?|passages?|documents?|results?)\s+(?:\w+\s+){{0,4}}?
        (?:found|available|provided)\b
    | \b(?:not\s+(?:\w+\s+)?clear|unclear)\s+(?:from|in|based\s+on)\s+{_FEW}{_EVIDENCE}\b
    | \b(?:need|consult)\s+(?:\w+\s+){{0,2}}?(?:more|further|additional|other)\s+(?:\w+\s+)?
        (?:information|context|sources?)\b(?!\s+than)
    | \b{_CANNOT}\s+be\s+(?:\w+\s+)?(?:answered|determined)\b
    | \banswer\s+{_CANNOT}\s+be\b
    | \bunanswerable\b
    | ^\W*(?:(?:sorry|unfortunately|this\s+is|that\s+is)\W+)?(?:unknown|n/a|not\s+(?:specified|stated|mentioned|given
        |available|provided|applicable|known)|insufficient\s+(?:information|context|evidence|data)|no\s+(?:answer|information))\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""A refusal, or a statement that the evidence is silent."""

CHATTER: Final = re.compile(
    r"""^(?:hi|hello|hey|dear\b.*|sure|certainly|of\s+course|thanks?(?:\s+you)?|great\s+question|you['’]re\s+welcome
        |good\s+luck\b.*|(?:sure|certainly|of\s+course)?[,!]?\s*i(?:\s+can|['’]ll|\s+will|['’]d\s+be\s+(?:happy|glad)\s+to)
         \s+(?:\w+\s+)?(?:help|assist|explain)\b.*
        |(?:i['’]?\s?a?m\s+)?(?:so\s+|very\s+|really\s+)?sorry(?:\s+(?:about|for|to\s+hear)\b[^,;:]*)?
        |(?:my\s+|our\s+|we\s+)?apologi(?:es|ze|se)\b[^,;:]*|(?:happy|glad)\s+to\s+help\b[^,;:]*|no\s+problem|absolutely|sounds\s+good
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
