"""Questions that an entry of a manual answers, and sound answers to them in other words than the entry's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Entry", "Phrased", "phrased"]

LONGEST: Final = 32  # words of a sentence that is reworded
SHORTEST: Final = 5
_IMPERATIVES: Final = frozenset(
    (
        "abort accept access add adjust allow append apply archive ask assign attach avoid block build bypass "
        "calculate call cancel cause change check choose clean clear close collect combine commit compare compile "
        "compress compute configure connect consider construct consume continue control convert copy count create cut "
        "deactivate decode decompress decrease define delete dereference describe detach detect determine disable "
        "discard display do dump duplicate edit emit empty enable encode end enforce ensure enter establish evaluate "
        "exclude execute exit expand export extend extract fetch fill filter find finish flush follow force format "
        "generate get give go group guess handle hide highlight ignore implement import include increase indicate "
        "inhibit initialize insert instruct interpret invoke join keep launch leave limit list load lock log lookup "
        "make map mark match merge modify monitor mount move name notify omit open optimize order output override "
        "overwrite pack parse pass pause perform permit pick place play prefer prefix prepare preserve prevent print "
        "process produce prompt protect provide prune push put query quit quote raise read rebuild recreate record "
        "recover reduce refresh register release reload remove rename repeat replace report request require reset "
        "resize resolve restart restore restrict resume retrieve return reverse revert rewrite rotate round run save "
        "scan schedule search select send separate serialize set shift show shut shuffle silence sign simulate skip "
        "sleep sort specify split squash stage start stop store strip substitute suppress swap switch sync "
        "synchronize take tell terminate test time toggle transfer transform translate traverse treat trim truncate "
        "try turn undo uninstall unlink unlock unmount unpack unregister update upload use validate verify wait warn "
        "wrap write yield"
    ).split()
)
_DEFAULT: Final = re.compile(r"\b[Tt]he default(?: value)? is (?:typically )?([^.;(]{1,60}?)(?: \(.*?\))?(?:,.*)?\.$")
_SERVER_START: Final = "This parameter can only be set at server start."
_DUTY: Final = re.compile(
    r"^((?:The|A|An|All|Any|Every|Each|[A-Z][a-z]+)\b[^,;:]{3,70}?) (must|should|may)( not)? ([^;:]{10,})\.$"
)
_POINTERS: Final = frozenset(
    "this it these they such that there you in for those both so then here its their thus if apart we also however "
    "when otherwise since as by because no note only to".split()
)
_CONDITION: Final = re.compile(r"^(If|When|Unless) ([^,]{8,80}), ([a-z][^;:]{10,})\.$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a manual describes, as a whole. subject: its name; empty for a section of prose. what: the sort of
    thing; where: what it belongs to; heading: its section."""

    page: str
    heading: str
    subject: str
    what: str
    where: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrased:
    """A question and sound answers; `{}` stands where the entry is cited. rests_on: what the answer is drawn from."""

    kind: str
    question: str
    answers: tuple[str, ...]
    rests_on: tuple[str, ...]


def phrased(entry: Entry) -> Iterator[Phrased]:
    """All that can be asked of an entry; each sort of question once."""
    if entry.subject:
        yield from _of_action(entry)
        yield from _of_default(entry)
        yield from _of_restart(entry)
    else:
        yield from _of_duty(entry)


def _of_action(entry: Entry) -> Iterator[Phrased]:
    """Of what begins with what it does: "Sets the amount of ..."."""
    first = entry.sentences[0]
    verb, _, rest = first.rstrip(".").partition(" ")
    plain = _imperative(verb.lower())
    if plain is None or not _is_plain(first) or entry.subject.endswith(("--help", "--version", "-V")):
        return
    does, name, where = f"{_third(plain)} {rest}", entry.subject, entry.where
    what = f"{'an' if entry.what[0] in 'aeio' else 'a'} {entry.what}"
    is_told = name.lower().startswith(where.lower())
    more = _second(entry)
    rests_on = entry.sentences[: 2 if more else 1]
    answers = [f"{name} {does} {{}}.{more}", f"The {entry.what} {name}{'' if is_told else f' of {where}'} {does} {{}}."]
    yield Phrased("plain", f"What does {name} do{'' if is_told else f' in {where}'}?", tuple(answers), rests_on)
    if not rest.startswith(("or ", "and ", "to ", "if ", "that ", "of ")):
        answers = [f"Use {name} {{}}. It {does} {{}}.{more}", f"You can do that with {name}, which {does} {{}}."]
        using = f"with {where}" if entry.what == "option" else f"in {where}"
        yield Phrased("procedure", f"How do I {plain} {_lower(_clause(rest))} {using}?", tuple(answers), rests_on)
    answers = [f"{name} is {what} of {where} that {does} {{}}.", f"Short answer: it {does} {{}}.{more}"]
    terse = f"{name} {entry.what}" if is_told else f"{where.lower()} {name} {entry.what}"
    yield Phrased("plain", terse, tuple(answers), rests_on)
    answers = [f"{name} {{}}.", f"The {entry.what} that does this is {name} {{}}."]
    yield Phrased("short", f"Which {entry.what} of {where} {does}?", tuple(answers), rests_on[:1])


def _of_default(entry: Entry) -> Iterator[Phrased]:
    """Of what has a default value."""
    for sentence in () if entry.subject.startswith(entry.where) else entry.sentences:
        found = _DEFAULT.search(sentence)
        if found is None:
            continue
        value, name = found[1].strip(), entry.subject
        if len(value.split()) > 8 or not value:
            return
        first = entry.sentences[0]
        answers = (f"Unless you set it yourself, {name} is {value} {{}}.", f"Its default is {value} {{}}.",
                   f"If nothing is configured, {entry.where} uses {value} for {name} {{}}.")  # fmt: skip
        yield Phrased("plain", f"What is {name} if I don't set it in {entry.where}?", answers, (first, sentence))
        yield Phrased("plain", f"{name} default value", answers, (first, sentence))
        yield Phrased("short", f"What is the default of {name}?", (f"{value} {{}}.", answers[1]), (first, sentence))
        return


def _of_restart(entry: Entry) -> Iterator[Phrased]:
    if _SERVER_START in entry.sentences:
        name = entry.subject
        answers = (f"No. {name} can be set only when the server starts {{}}.",
                   f"You have to restart: {name} takes effect at server start only {{}}.")  # fmt: skip
        question = f"Can I change {name} while the {entry.where} server is running?"
        yield Phrased("yes_no", question, answers, (entry.sentences[0], _SERVER_START))


def _of_duty(entry: Entry) -> Iterator[Phrased]:
    """Of prose that says what must, should or may be done."""
    for sentence in entry.sentences:
        if not _is_plain(sentence):
            continue
        if found := _CONDITION.match(sentence):
            word, condition, duty = found.groups()
            if re.search(r"\b(must|should|may)\b", duty) and not any(map(_points_back, (condition, duty))):
                yield from _conditional(entry, sentence, word, condition, duty)
        elif (found := _DUTY.match(sentence)) and not _points_back(found[1]):
            yield from _dutiful(entry, sentence, _lower(found[1]), found[2], bool(found[3]), found[4])


def _conditional(entry: Entry, sentence: str, word: str, condition: str, duty: str) -> Iterator[Phrased]:
    about = _lower(entry.heading)
    answers = (f"{duty[0].upper()}{duty[1:]} {word.lower()} {condition} {{}}.",
               f"{entry.where} has a rule for this: {duty}, {word.lower()} {condition} {{}}.")  # fmt: skip
    yield Phrased("plain", f"What does {entry.where} ask for {word.lower()} {condition}?", answers, (sentence,))
    yield Phrased("plain", f"{about} {condition}", answers, (sentence,))


def _dutiful(entry: Entry, sentence: str, subject: str, duty: str, negated: bool, rest: str) -> Iterator[Phrased]:
    where = entry.where
    said = f"{subject} {duty}{' not' * negated} {rest}"
    strength = {"must": "a strict requirement", "should": "a recommendation", "may": "allowed"}[duty]
    if duty == "may" and negated:
        strength = "forbidden"
    answers = (f"According to {where}, {said} {{}}.", f"This is {strength}: {said} {{}}.")
    yield Phrased(
        "plain", f"What does {where} say about {_lower(entry.heading)}: {_clause(subject)}?", answers, (sentence,)
    )
    yield Phrased("plain", f"{_lower(entry.heading)} {subject}", answers, (sentence,))
    opening = "Should" if duty == "should" else "May" if negated or duty == "may" else "Must"
    verdict = "No" if negated else "Yes"
    asked = f"{opening} {subject} {rest}?"
    yield Phrased(
        "yes_no", asked, (f"{verdict}, {said} {{}}.", f"{verdict}. {where} says that {said} {{}}."), (sentence,)
    )


def _is_plain(sentence: str) -> bool:
    """Whether it is one sentence of a length that can be reworded."""
    return SHORTEST <= len(sentence.split()) <= LONGEST and ":" not in sentence and ". " not in sentence


def _points_back(text: str) -> bool:
    """Whether it cannot be understood without what stands before it."""
    words = re.findall(r"[a-z]+", text.lower())
    return (
        not words or words[0] in _POINTERS or bool({"these", "such", "above", "following", "they", "this"} & set(words))
    )


def _second(entry: Entry) -> str:
    """The entry's second sentence as one more of the answer, where it can stand there."""
    second = entry.sentences[1] if len(entry.sentences) > 1 else ""
    fits = second and _is_plain(second) and not second.startswith(("See", "For", "Note"))
    return f" {second.rstrip('.')} {{}}." if fits else ""


def _clause(text: str) -> str:
    """The beginning of a long text, up to a comma."""
    head = re.split(r"[,;(]", text)[0].strip()
    return head if len(head.split()) >= 3 else text


def _lower(text: str) -> str:
    is_name = len(text) > 1 and (text[1].isupper() or not text[1].isalpha())
    return text if is_name else f"{text[:1].lower()}{text[1:]}"


def _third(verb: str) -> str:
    if re.search(r"(s|x|z|ch|sh|o)$", verb):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"


def _imperative(verb: str) -> str | None:
    """The verb's plain form; None for what is no verb that is known."""
    forms = [verb, verb.removesuffix("s"), verb.removesuffix("es")]
    forms += [f"{verb[:-3]}y"] if verb.endswith("ies") else []
    return next((form for form in forms if form in _IMPERATIVES), None)
