"""Refusals: answers that decline, sentences that say that the evidence is silent, and what goes with them: what the
given texts are about instead, why, and where else to ask.

Beside them stand the frames that lead on from one statement, and courtesies: with a refusal, all that states nothing of
the matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.text import content_words, is_code, sentences, stem
from ragtrace.coverage.values import values

__all__ = [
    "FRAME_WORDS",
    "abstains_somewhere",
    "is_abstention",
    "mentions_blanked",
    "only_advises",
    "states_something",
]

_FOOTNOTE: Final = re.compile(r"^\s*\[\^[^\]\n]+\]:")


def is_abstention(answer: str) -> bool:
    """Whether `answer` as a whole declines to answer: it abstains somewhere and states nothing else.

    What the given texts are about ("they concern another company") and advice behind the refusal (whom to ask, where to
    look) state nothing of the matter.
    """
    return _is_abstention(answer)


@lru_cache(maxsize=64)  # an analysis asks several times about its answer
def _is_abstention(answer: str) -> bool:
    return _declines([sentence.text for sentence in sentences(answer)])


def _declines(parts: Sequence[str]) -> bool:
    declined = described = False
    for clause in (clause for part in parts for clause in _clauses(part)):
        if _abstains(clause) or (described and _leaves_out(clause)):
            declined = described = True
        elif _describes_evidence(clause, goes_on=described):
            described = True
        elif declined and _advises(clause):
            described = False
        elif _has_content(clause):
            return False
    return declined


def _clauses(sentence: str) -> list[str]:
    """What a sentence says, clause by clause, without citations; nothing for what is no statement."""
    if is_code(sentence) or _FOOTNOTE.match(sentence):
        return []
    text = without_citations(sentence).strip()
    bare = text.rstrip("*_ ")
    if not bare or bare.endswith(("?", ":")) or text.startswith("#") or _CHATTER.match(text):
        return []
    return _sentence_clauses(text)


def _has_content(clause: str) -> bool:
    if _CHATTER.match(clause):
        return False
    plain = mentions_blanked(clause)
    return any(word not in FRAME_WORDS for word in content_words(plain)) or bool(values(plain))


def abstains_somewhere(answer: str) -> bool:
    """Whether some sentence of `answer` says that the evidence is silent, whatever else it states."""
    return any(_abstains(sentence.text) for sentence in sentences(answer))


def states_something(sentence: str) -> bool:
    """Whether a sentence states something of the matter: some clause of it neither refuses nor only frames."""
    parts = _clauses(sentence)
    is_refusal = any(map(_abstains, parts))
    return any(
        _has_content(clause)
        and not _abstains(clause)
        and not (is_refusal and _describes_evidence(clause, goes_on=True))
        for clause in parts
    )


def only_advises(sentence: str) -> bool:
    """Whether a sentence only tells where else to ask, without any figure."""
    parts = _clauses(sentence)
    return bool(parts) and all(_advises(part) and _CALLS.search(part) for part in parts) and not values(sentence)


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

_CHATTER: Final = re.compile(
    r"""^(?:hi|hello|hey|dear\b.*|sure|certainly|of\s+course|thanks?(?:\s+you)?(?:\s+for\b[^,;:.]*)?|great\s+question|you['’]re\s+welcome
        |good\s+luck\b.*|(?:sure|certainly|of\s+course)?[,!]?\s*i(?:\s+can|['’]ll|\s+will|['’]d\s+be\s+(?:happy|glad)\s+to)
         \s+(?:\w+\s+)?(?:help|assist|explain)\b.*
        |(?:i['’]?\s?a?m\s+)?(?:so\s+|very\s+|really\s+)?sorry(?:\s+(?:about|for|to\s+hear)\b[^,;:]*)?
        |(?:my\s+|our\s+|we\s+)?apologi(?:es|ze|se)\b[^,;:]*|(?:happy|glad)\s+to\s+help\b[^,;:]*|no\s+problem|absolutely|sounds\s+good
        |(?:good\s?bye|bye|see\s+you|take\s+care)\b[^.;:]{0,40}|have\s+an?\s+(?:nice|good|great|lovely)\b[^.;:]*
        |thanks?(?:\s+you)?\s+for\b[^,;:.]*,?\s+and\s+i(?:['’]?m|\s+am)\s+sorry\b[^,;:.]*
        |(?:i['’]?\s?a?m\s+)?sorry,?\s+(?:that\s+)?i\s+can(?:['’]t|not)\s+be\s+(?:\w+\s+)?(?:more|of)\s+\w+(?:\s+help)?
        |(?:i['’]?\s?a?m\s+)?(?:so\s+)?sorry\s+(?:that\s+)?this\s+happened\b[^,;:.]*|how\s+about\s+this
        |(?:that|it)\s+depends\s+on\s+(?:what|which|how)\b[^,;:.]*\byou\b[^,;:.]*
        |(?:haha|lol)?[,!]?\s*(?:thanks?|thank\s+you)(?:\s+so\s+much|\s+for\b[^,;:.]*)?[,!]\s*(?:that['’]s\s+(?:very\s+)?(?:kind|nice)\b[^,;:.]*|and\s+see\s+you\b[^,;:.]*)
        |welcome\s+to\b[^,;:.]*|(?:no,?\s+)?i(?:['’]?m|\s+am)\s+(?:an?|the|your|just\s+an?)\s+(?:\w+\s+){0,2}(?:chat\s?bot|bot|assistant|ai)\b[^;:.]*
        |(?:please\s+note\s+(?:that\s+)?)?this\s+is\s+(?:only\s+|just\s+)?general\s+(?:information|guidance)\b[^;:.]*
        |(?:please\s+note\s+(?:that\s+)?)?this\s+is(?:\s+not|\s+no|n['’]t)\s+(?:legal|medical|tax|financial|professional)\s+advice\b[^;:.]*
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


@lru_cache(maxsize=1024)  # as `_abstains`
def mentions_blanked(text: str) -> str:
    """`text` with what states nothing of the matter blanked out, every character in its place: names of pieces of
    evidence ("passages 1 and 3"), "as far as I can tell", and fields of JSON in which an answer says how sure it is."""
    if len(_FIELD.findall(text)) > 1 or not text.lstrip().startswith("{"):  # the only field is the answer
        text = _CONFIDENCE.sub(_blank, text)
    return _HEDGE.sub(_blank, _MENTION.sub(_blank, text))


_HEDGE: Final = re.compile(
    r"(?:,?(?<!\s)\s+)?\bas\s+far\s+as\s+(?:i|we)\s+(?:can|could)\s+(?:tell|see|judge|say|work\s+(?:it\s+)?out|make\s+out)\b",
    re.IGNORECASE,
)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


_EVIDENCE: Final = (
    r"(?:passages?|documents?|documentation|docs|contexts?|texts?|sources?|articles?|excerpts?|snippets?|information"
    r"|evidence|materials?|pages?|reports?|runbooks?|clauses?|notes|notebooks|records|entries|archives?|transcripts?"
    r"|knowledge\s+base|help\s+cent(?:er|re))"
)

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
    | \bi\s+(?:(?:therefore|thus|so)\s+)?{_CANNOT}\s+{_FEW}(?:give|provide)\b
    | \bwe\s+(?:{_CANNOT}|do{_NOT})\s+{_FEW}(?:give|provide)\s+{_FEW}{_KNOWLEDGE}\b
    | \bi\s*(?:['’]m|\s+am)\s+(?:not\s+(?:sure|certain|aware)|unsure)\b
    | (?:^\W*|\b(?:i|we)\s*(?:['’]m|['’]re|\s+(?:am|are|was|were))\s+(?:\w+\s+)?|\bi\s+was|\bwe\s+were)
        (?:unable|not\s+able|n['’]t\s+able)\s+to\s+(?:\w+\s+){{0,2}}?
        (?:answer|determine|provide|give|say|tell|find|conclude|confirm|identify|locate)\b
    | (?:\bimpossible|\bnot\s+possible|\bdifficult)\s+to\s+(?:\w+\s+){{0,2}}?
        (?:answer|determine|provide|give|say|tell|find|conclude|confirm|identify)\b
    | \b(?:it|this|that)(?:['’]s|\s+is)(?:\s+not|n['’]t)\s+
        (?:mentioned|stated|specified|said|indicated|described|clear)\s+(?:whether|how|when|what|which|who|why|where|if)\b
    | \bno\s+(?:\w+\s+){{0,2}}?{_EVIDENCE}\s+(?:address|mention|deal|cover|discuss|give|state|say|answer|contain
        |describe|tell|explain|provide|concern)(?:e?s)?\b
    | \b(?:absent|missing)\s+from\s+{_FEW}{_EVIDENCE}\b
    | \b{_EVIDENCE}\s+{_FEW}(?:is|are|was|were|remains?)\s+silent\b
    | \b{_EVIDENCE}\s+{_FEW}(?:leaves?\s+out|omits?|lacks?)\b
    | \b{_EVIDENCE}\b[^.;]{{0,60}}\bnone\s+of\s+(?:which|them)\b
    | \bnone\s+of\s+(?:which|them|these|those)\s+(?:mention|say|state|describe|tell)s?\b
    | \bi\s+(?:can\s+)?(?:only|just)\s+(?:have|know|see|find|found|partly|partially)\b
    | \bi\s+can\s+only\s+(?:see|find|tell|partly|partially)\b
    | (?:(?:\b(?:not|no|lacks?)|n['’]t)\s+{_FEW}(?:enough|sufficient)|\binsufficient)\s+
        (?:information|context|evidence|details?)\b
    | \b{_EVIDENCE}\b[^.;]{{0,30}}\b(?:insufficient|(?:not|n['’]t)\s+(?:enough|sufficient))\s+to\s+
        (?:say|tell|answer|determine)\b
    | \b{_EVIDENCE}\b[^.;]{{0,80}}\b(?:and|but)\s+(?:they\s+)?(?:do|does|did){_NOT}\s+
        (?:contain|mention|provide|say|state|include|specify|give|explain|describe|list|name|tell)\b
    | \b{_EVIDENCE}\s+{_FEW}(?:mention|give|contain|name|state|provide)s?\s+neither\b | \bi\s+neither\s+(?:have|know)\b
    | \bthere\s+(?:is|are|was|were){_NOT}\s+any\s+{_FEW}(?:information|description|mention|details?|instructions?)\b
    | \bnothing\s+(?:that\s+)?i\s+(?:was|have|can|know)\b
    | \b{_EVIDENCE}\s+{_FEW}(?:do|does|did){_NOT}\s+(?:\w+\s+)?
        (?:contain|mention|provide|say|state|include|specify|answer|give|explain|describe|discuss|address|offer|indicate
        |cover|list|name|reveal|disclose|show|clarify|detail|tell)\b
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
    | ^\W*(?:unfortunately\W+)?(?:this|that|it)(?:(?:['’]s|\s+is)\s+not|\s+isn['’]t)\s+
        (?:known|stated|given|specified|disclosed)\W*$
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
    r"|(?:i|we)\s+(?:have\s+access\s+to|can\s+(?:see|access))|in\s+front\s+of\s+me"
    r"|the\s+(?:\w+\s+){1,3}?(?:at\s+hand|available\s+to\s+me|(?:that\s+)?i\s+(?:have|had|was|can|could)(?:\s+been)?(?:\s+(?:given|shown|see|access))?))"
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
        |recommend|make|assess|evaluate|answer|find|tell|say|determine|locate|confirm|verify|give|provide|help|explain|list|describe|comment
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

_CONDITION: Final = re.compile(r"^\W*(?:if|when|whenever|where|unless)\b[^,.;]*,", re.IGNORECASE)


_MAY_ABSTAIN: Final = re.compile(
    r"""\b(?:i|we|no|not|none|nothing|neither|need|consult)\b|n['’]t|not\b|able\b|impossible|difficult|absent|miss|silent|\bout\b
    |omit|lack|insufficient|unclear|unanswerable|unknown|n/a""",
    re.IGNORECASE | re.VERBOSE,
)
"""One of these stands in whatever `_ABSTAINS` and `_SILENT` find, and in few other sentences: it is sought first."""


@lru_cache(maxsize=1024)  # an answer's sentences are asked about several times
def _abstains(sentence: str) -> bool:
    """Whether a sentence refuses, or says that the evidence is silent."""
    if not _MAY_ABSTAIN.search(sentence):
        return False
    rest = _CONDITION.sub("", sentence)
    return bool(_ABSTAINS.search(rest) or _SILENT.search(rest))


_CALL: Final = (
    r"(?:check|consult|contact|ask|call|phone|write|e-?mail|visit|try|see|refer|look|reach|turn|go|speak|talk|stick|take|get"
    r"|test|share|send|search|measure|measuring)"
)
_ADVICE: Final = re.compile(
    rf"""^\W*(?:(?:so|instead|meanwhile|otherwise|then|and|if\s+in\s+doubt|when\s+in\s+doubt|for\s+(?:your\s+)?safety
         |in\s+(?:an?\s+)?(?:emergency|urgent\s+case|doubt))\W+)?
        (?:please\b | better\s+{_CALL}\b | (?:perhaps|maybe|possibly)\b
        |(?:you|one)(?:\s+(?:may|might|could|can|should|would|will)|['’]d)\s+
         (?:(?:want|wish|like|need|have|also|be|best|better)\b|(?:\w+\s+)?{_CALL}\b)
        |i(?:['’]d|\s+would)?\s+(?:suggest|recommend|advise|encourage)\b
        |i(?:['’]m|['’]d\s+be|\s+am|\s+would\s+be|['’]ll|\s+will)\s+(?:\w+\s+)?(?:happy|glad|gladly)\b
        |it\s+(?:may|might|would)\s+(?:help|be\s+(?:on|in|at|best|worth|better|safest|a\s+good))\b
        |if\s+(?:you|one)\b[^.]{{0,200}}\b(?:i\s+(?:can|could|will|['’]ll)|i(?:['’]m|\s+am)\s+(?:happy|glad)|say\s+so|tell\s+me
         |let\s+me\s+know|{_CALL})\b
        |should\s+(?:you|your|it|this)\b[^.]{{0,120}},\s*(?:please\s+)?{_CALL}\b
        |could\s+you\b | would\s+you\b | feel\s+free\b
        |{_CALL}\b(?!\s+(?:is|are|was|were)\b))
    | \b(?:can|could|may|might|will|would|should|must)\s+(?:\w+\s+){{0,3}}?
        (?:help|confirm|tell|guide|advise|answer|clarify|know|show|look
        |(?:give|send|provide)\s+(?:you|details|more|the|it)|have\s+(?:the|more|it|that|this|details|information|a|your)
        |be\s+(?:able\s+to|consulted|asked|contacted|checked|the\s+(?:place|right|best|first|ones?))
        |contain\s+(?:it|this|that|the|something|more))\b""",
    re.IGNORECASE | re.VERBOSE,
)

_HELD: Final = (
    r"(?:(?:that|which)\s+(?:was|were|is|are)\s+|to\s+me\s+)?(?:provided|given|supplied|retrieved|available|shown|at\s+hand|here"
    r"|above|(?:that\s+|which\s+)?(?:i|we)\s+(?:have|had|was|were|can|could|am|see|know|got)"
    r"(?:\s+(?:(?:been\s+)?(?:given|shown|provided)|access(?:\s+to)?|see))?)(?:\s+to\s+(?:me|us)|\s+on(?:\s+\w+){1,3}?)?"
)
_ONLY: Final = r"(?:only|merely|just|mainly|mostly|all|both|instead|rather|solely|simply|exclusively|alone|also)"
_SHOWN: Final = (  # what is meant where an answer speaks of the texts that it was given
    rf"(?:(?:the|these|those|all|both|each|my|your|every|a|any|\w+)\s+(?:[\w'’-]+\s+){{0,3}}?{_EVIDENCE}(?:\s+{_HELD})?"
    rf"|{_EVIDENCE}|the\s+(?:[\w'’-]+\s+){{1,4}}?{_HELD}"
    r"|the\s+(?:nearest|closest|only)\s+(?:one|thing|entry|match|rule|section|part|hit|result)"
    r"|what\s+(?:they|it|i|we)(?:\s+[\w'’]+){1,3}?"
    r"|(?:the|your)\s+question)"
)
_IT: Final = r"(?:(?:they|these|those|it|this|both|each|one|most|all)(?:\s+(?:of\s+)?(?:them|these|three|two|four))?)"
_TOPIC: Final = (
    r"(?:(?:is|are|was|were)\s+(?:\w+\s+)?(?:about|limited|restricted|devoted|confined)"
    r"|(?:concern|describe|cover|discuss|address|treat|mention)(?:e?s)?|(?:deal|end|begin|start)s?\s+with|(?:refer|relate|belong)s?\s+to"
    r"|(?:talk|speak)s?\s+(?:\w+\s+)?(?:about|of)|focus(?:es)?\s+on|ask(?:s)?\s+about|leaves?\s+(?:this|that|it)\s+open)"
)
_CONTENT: Final = r"(?:list|name|give|contain|include|explain|state|say|show|tell|hold|have|provide)(?:e?s)?"
_DESCRIBES: Final = re.compile(
    rf"""^\W*(?:(?:here|instead|rather|and|so|also|although|while|though|since|as|because|unfortunately)\W+)?{_SHOWN}(?:,\s*[“"][^”"]{{1,150}}[”"],|,[^.;]{{1,150}}?,)?\s+
         (?:{_ONLY}\s+){{0,2}}(?:{_TOPIC}|{_CONTENT}|is|are|(?:stop|end|begin|start)s?\s+(?:at|in|before|after|with|on))\b
    | ^\W*i\s+(?:have\s+|['’]ve\s+)?(?:searched|looked|checked|read|went|gone|reviewed)\b
    | ^\W*(?:sorry\W+)?i(?:['’]d|\s+would|['’]m|\s+am)?\s+
      (?:apologi[sz]e|understand|see|wish|appreciate|realize|love|like|know\s+that|afraid)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_GIVEN_THERE: Final = r"(?:described|said|given|stated|mentioned|listed|covered|specified|named)"
_GOES_ON: Final = re.compile(
    rf"""^\W*(?:(?:instead|rather|and|also|but)\W+)?{_IT}\s+(?:(?:{_ONLY}\s+){{0,2}}{_TOPIC}|(?:{_ONLY}\s+){{1,2}}{_CONTENT}
        |(?:list|name|give|explain|contain))\b
    | ^\W*(?:it\s+is\s+|they\s+are\s+)?{_ONLY}\s+(?:[\w'’-]+\s+){{0,6}}?{_GIVEN_THERE}\b
    | \b(?:is|are)\s+(?:\w+\s+)?{_GIVEN_THERE}\b[^.]{{0,80}}\b(?:only|alone)\W*$
    | ^\W*(?:one|(?:the|this|that)\s+(?:[\w'’-]+\s+){{0,3}}?[\w'’-]+)\s+(?:is|are)\s+(?:{_ONLY}\s+)?about\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LIMITED: Final = re.compile(rf"\b(?:{_ONLY}|in\s+passing)\b", re.IGNORECASE)
_LEFT_OUT: Final = re.compile(
    rf"""^\W*not\s+(?:the|those|that|for|of|in|about|on|whether|how|when|what|which|who|to|its|any)\b
    | \b(?:is|are|was|were){_NOT}\s+(?:\w+\s+)?
        (?:{_GIVEN_THERE}|included|discussed|addressed|there|among|in\s+(?:them|it|there|any|either)|part\s+of)\b
    | \bno\s+(?:[\w'’-]+\s+){{1,5}}?(?:is|are|was|were)\s+{_GIVEN_THERE}\b
    | \b(?:they|it|these|which|none\s+of\s+(?:them|which|these)|neither)\s+{_FEW}(?:do|does|did){_NOT}\s+(?:\w+\s+)?
        (?:contain|mention|provide|say|state|include|specify|answer|give|explain|describe|discuss|address|cover|list|name
        |show|tell|deal)\b
    | \b(?:they|it|but)\s+(?:say|mention|give|contain|state)s?\s+nothing\b
    | ^\W*(?:did|could){_NOT}\s+(?:find|see)\b | ^\W*nothing\s+in\s+(?:it|them)\b
    | ^\W*(?:says?|mentions?|gives?)\s+nothing\b | \bnone\s+of\s+(?:which|them)\b
    | ^\W*(?:but\s+)?no\s+[\w'’-]+(?:\s+[\w'’-]+)?\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_TURN: Final = re.compile(r"[,;]?(?<!\s)\s+(?:but|however|though|although|yet)[,]?\s+|;\s+", re.IGNORECASE)


def _sentence_clauses(sentence: str) -> list[str]:
    """A sentence parted where it turns: at a semicolon, a "but", a "however", an "although" in its middle."""
    return [part for part in _TURN.split(sentence) if any(map(str.isalnum, part))]


_CALLS: Final = re.compile(rf"\b{_CALL}(?:ing)?\b", re.IGNORECASE)


def _advises(clause: str) -> bool:
    """Whether a clause tells where else to ask, or guesses what might help: so a refusal goes on."""
    return _ADVICE.search(clause) is not None


def _describes_evidence(clause: str, *, goes_on: bool) -> bool:
    """Whether a clause says what the texts are about that were given, and no amount out of them.

    goes_on: whether the clause before spoke of them, so that "they" may be meant for them.
    """
    if not (_DESCRIBES.search(clause) or (goes_on and _GOES_ON.search(clause))):
        return False
    return bool(_LIMITED.search(clause)) or not any(value.dates is None and value.unit for value in values(clause))


def _leaves_out(clause: str) -> bool:
    """Whether a clause that follows on what the texts are about says what they lack: "but not for damaged ones"."""
    return _LEFT_OUT.search(clause) is not None
