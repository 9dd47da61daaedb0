"""What an answer says about itself and its evidence, and not about the matter: frames, refusals, courtesies."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ragtrace.coverage.text import stem

__all__ = ["ADVICE", "CHATTER", "FRAME_WORDS", "abstains", "mentions_blanked"]

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

_ABSTAINS: Final = re.compile(
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

_GIVEN: Final = (
    rf"(?:(?:the|these|those|any|either)\s+(?:\w+\s+){{0,3}}?{_EVIDENCE}"
    r"|(?:the|my|these)\s+(?:provided|given|supplied|retrieved|available|search)\s+(?:\w+\s+){0,2}?\w+"
    r"|what\s+(?:i|we)(?:\s+was|\s+were|\s+have|['’]ve)\s+(?:been\s+)?(?:given|shown|provided)"
    r"|(?:provided|given|shown|available|supplied|accessible)\s+to\s+(?:me|us)"
    r"|(?:i|we)\s+(?:have\s+access\s+to|can\s+(?:see|access))|in\s+front\s+of\s+me)"
)
_ABSENT: Final = (
    r"(?:mention|appear|contain|include|found|find|list|describe|document|show|state|specif|cover|address|discuss|explain"
    r"|given|present|available|clear|detail|provide|derive|say|tell|name|exist|talk|among|enough|let\s+me|allow)"
)
_SILENT: Final = re.compile(
    rf"""\bi(?:\s+am|['’]m)\s+(?:missing|unable\s+to|not\s+able\s+to
        |afraid\s+(?:there|i|the|that)\b[^.]{{0,200}}\b(?:no|not|nothing|can['’]?t))\b
    | \bi\s+(?:was|am|were)\s+(?:unable|not\s+able)\s+to\b | \bi\s+lack\b
    | \bi\s+(?:found|(?:can|could)\s+find|see|have|had)\s+(?:no|nothing|neither|only\s+partial)\b
    | \bi\s+(?:do|did)(?:\s+not|n['’]t)\s+(?:\w+\s+)?(?:see|find|have)\b
    | \bi\s+{_CANNOT}\s+(?:\w+\s+)?(?:see|judge|identify|compare|calculate|compute|work|produce|name|quote|offer|advise
        |recommend|make|answer|find|tell|say|determine|locate|confirm|verify|give|provide|help|explain|list|describe|comment
        |reconstruct|state|decide|rule)\b
    | \bi['’]d\s+rather\s+not\s+say\b
    | \b(?:no|nothing|neither|none)\b[^.;]{{0,120}}\b{_ABSENT}\w*\b[^.;]{{0,60}}\b{_GIVEN}
    | \b(?:no|nothing|neither|none)\b[^.;]{{0,120}}\b(?:in|among|within|from)\s+{_GIVEN}
    | (?:\bnot|n['’]t)\b[^.;]{{0,60}}\b{_ABSENT}\w*\b[^.;]{{0,40}}\b{_GIVEN}
    | (?:\bnot|n['’]t)\s+(?:\w+\s+){{0,2}}?(?:in|among|part\s+of)\s+{_GIVEN}
    | \b{_GIVEN}\b[^.;]{{0,40}}(?:\bnot|n['’]t|\bneither)\s+(?:\w+\s+){{0,3}}?{_ABSENT}
    | \b{_GIVEN}\b[^.;]{{0,40}}\b(?:is|are)\s+silent\b | \b{_GIVEN}\b[^.;]{{0,30}}\b(?:lacks?|omits?|misses)\b
    | \b{_GIVEN}\b[^.;]{{0,40}}\b(?:contain|give|has|have|hold|offer|provide|include)s?\s+(?:no|nothing|neither)\b
    | \b(?:is|are)\s+missing\s+from\s+{_GIVEN}
    | \bi\s+(?:searched|looked)\b[^.]{{0,200}}\b(?:but|and)\b[^.]{{0,200}}(?:\bnot|n['’]t|\bnothing)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""The same in more words, where the sentence names the speaker or the evidence that was given."""


@lru_cache(maxsize=1024)  # an answer's sentences are asked about several times
def abstains(sentence: str) -> bool:
    """Whether a sentence refuses, or says that the evidence is silent."""
    return bool(_ABSTAINS.search(sentence) or _SILENT.search(sentence))


ADVICE: Final = re.compile(
    r"""^\W*(?:(?:so|instead|meanwhile|if\s+in\s+doubt|when\s+in\s+doubt|for\s+(?:your\s+)?safety|in\s+an\s+emergency)\W+)?
        (?:please\b
        |(?:you|one)\s+(?:may|might|could|can|should)\s+(?:want|wish|like|need|try|check|ask|consult|contact|look|reach|also)\b
        |i(?:['’]d|\s+would)?\s+(?:suggest|recommend|advise|encourage)\b
        |it\s+(?:may|might|would)\s+(?:help|be\s+(?:best|worth|better|safest|a\s+good))\b
        |if\s+you\b[^.]{0,200}\bi\s+(?:can|could|will|['’]ll)\b | could\s+you\b | would\s+you\b | feel\s+free\b
        |(?:check|consult|contact|ask|try|see|refer|measuring|check\s+with)\b
        |(?:your|the)\s+(?:\w+\s+){0,4}?(?:can|could|may|might|will|should)\s+(?:be\s+able\s+to\s+)?
         (?:help|confirm|tell|guide|advise|answer|contain|show|know|clarify)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
"""What a refusal goes on with: where else to ask."""

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
