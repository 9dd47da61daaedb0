"""Answers recombined from what a domain holds: those that follow from a broken prompt, and broken ones beside a whole
one.

Every function takes the path, its domain and a random generator; it returns an answer with `{passage-id}` marks, or
None where the path offers no way for it or the result might be right.
"""

from __future__ import annotations

import pathlib
import random
import re
from collections.abc import Callable, Mapping, Sequence

from bench.verdicts.model import GHOST, Domain, Packed, Path, Question
from bench.verdicts.swap_facts import exaggerated, exchanged_facts, replaced
from bench.verdicts.swap_texts import (
    STOP_WORDS,
    TOKEN,
    cited,
    coverage,
    holds,
    marks_in,
    names_in,
    prompt_text,
    remarked,
    resemblance,
    sentences,
    unmarked,
    wanted_ids,
    words,
)

__all__ = ["CITATION", "GENERATION", "following_answer"]

_GENERAL_KNOWLEDGE = pathlib.Path(__file__).with_name("general_knowledge.txt")


def _repointed(answer: str, path: Path, domain: Domain, rng: random.Random) -> str:
    """The answer with every mark at a passage of the prompt; those that are there already stay."""
    packed = [chunk.id for chunk in path.packed]
    aims: dict[str, str] = {passage_id: passage_id for passage_id in packed}

    def aim(mark: str) -> str | None:
        if mark not in aims and packed:
            aims[mark] = rng.choice(packed)
        return aims.get(mark)

    return remarked(answer, domain, aim)


def _body(chunk: Packed, domain: Domain) -> str:
    title = domain.passages[chunk.id].title
    return chunk.text[len(title) :].lstrip() if title and chunk.text.startswith(title) else chunk.text


def _others(path: Path, domain: Domain, rng: random.Random) -> list[Question]:
    """The domain's questions about something else, shuffled."""
    own = path.question
    others = [
        other
        for other in domain.questions
        if other.id != own.id
        and other.kind not in ("chit_chat", "unanswerable")
        and other.evidence
        and not wanted_ids(other) & wanted_ids(own)
        and resemblance(other.question, own.question) < 0.5
    ]
    rng.shuffle(others)
    return others


# Answers that follow from a prompt without the evidence


def following_answer(path: Path, domain: Domain, rng: random.Random) -> str:
    """What a model writes whose prompt lacks the evidence: a refusal, the misled answer, one composed of sentences of
    the prompt, or a made-up one."""
    ways = [(_refusal, 0.3), (_misled, 0.25), (_composed, 0.27), (_made_up, 0.18)]
    while ways:
        way, weight = rng.choices(ways, [weight for _, weight in ways])[0]
        answer = way(path, domain, rng)
        if answer:
            return _repointed(answer, path, domain, rng)
        ways.remove((way, weight))
    return _composed_refusal(path, domain, rng)


def _refusal(path: Path, domain: Domain, rng: random.Random) -> str:
    written = path.question.refusal
    return written if written and rng.random() < 0.5 else _composed_refusal(path, domain, rng)


def _misled(path: Path, domain: Domain, rng: random.Random) -> str | None:
    misled = path.question.misled
    in_prompt = misled is not None and any(
        chunk.id == misled.rests_on and domain.passages[chunk.id].text.strip() in chunk.text for chunk in path.packed
    )
    return misled.answer if misled is not None and in_prompt else None


def _composed(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """One to three sentences of the prompt that come nearest to the question, in the prompt's order."""
    asked = path.question.question
    found = [
        (chunk.id, sentence.strip(" -*•\n\t"))
        for chunk in path.packed
        for sentence in sentences(_body(chunk, domain))
        if len(TOKEN.findall(sentence)) >= 5 and "|" not in sentence
    ]
    if not found:
        return None
    nearest = sorted(range(len(found)), key=lambda at: -coverage(asked, found[at][1]))[:6]
    chosen = sorted(rng.sample(nearest, min(len(nearest), rng.randint(1, 3))))
    return " ".join(cited(found[at][1], found[at][0]) for at in chosen)


def _made_up(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The made-up answer of this question or one in another's register; a model that cites marks some of it."""
    answer = path.question.made_up or foreign_register(path, domain, rng)
    if not answer or not path.packed or marks_in(answer, domain):
        return answer
    return " ".join(
        cited(sentence, rng.choice(path.packed).id) if rng.random() < 0.6 else sentence.strip()
        for sentence in sentences(answer)
    )


_REFUSALS = (
    "The provided documents do not specify {topic}.",
    "The documents at hand do not mention {topic}, so I cannot give you a reliable answer.",
    "I could not find {topic} in the context I was given.",
    "Unfortunately, the passages provided do not cover {topic}.",
    "The context does not state {topic}.",
    "The given excerpts leave out {topic}, and I would not want to guess.",
)
_REASONS = (
    " They only deal with “{title}”.",
    " The nearest passage, “{title}”, leaves this open.",
    " You may want to look beyond “{title}”, which is all that I was shown.",
)


def _composed_refusal(path: Path, domain: Domain, rng: random.Random) -> str:
    refusal = rng.choice(_REFUSALS).format(topic=_topic(path.question.question, rng))
    titles = [title for chunk in path.packed if (title := domain.passages[chunk.id].title)]
    reason = rng.choice(_REASONS).format(title=rng.choice(titles)) if titles and rng.random() < 0.5 else ""
    return refusal[0].upper() + refusal[1:] + reason


def _topic(question: str, rng: random.Random) -> str:
    """What the question is about, as the object of a sentence."""
    asked = question.strip().rstrip("?.! ")
    if found := re.match(r"(?i)(?:what|who)\s+(?:is|are|was|were)\s+((?:the|a|an|our|my)\s.+)$", asked):
        return found[1]
    if found := re.match(
        r"(?i)(how (?:much|many|long|often|soon)\b.*?)\s(?:does|do|did|can|may|must|should|will)\s(.+)$", asked
    ):
        return found[1].lower() + " " + found[2]
    if rng.random() < 0.3:
        return f"anything that answers “{asked}?”"
    names = names_in(asked)[:2]
    plain = [run for run in _runs(asked) if len(run) > 5 and not any(name in run for name in names)]
    longest = sorted(plain, key=lambda run: -len(run))[: 3 - len(names)]
    parts = sorted({*names, *longest}, key=lambda part: (asked.find(part), part)) or ["this"]
    return "information about " + " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _subject(question: str) -> str:
    """The names in a question, otherwise its longest run of content words."""
    names = names_in(question)
    if names:
        return " and ".join(names[:2])
    return max(_runs(question), key=lambda run: len(run.split()))


def _runs(question: str) -> list[str]:
    """The words between a question's stop words."""
    runs = re.split(rf"(?i)\b(?:{'|'.join(sorted(STOP_WORDS))})\b|[^\w\s-]", question)
    return [" ".join(run.split()) for run in runs]


# Broken answers beside a whole prompt


def other_answer(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer of another question, its marks at passages of the prompt."""
    own = unmarked(path.answer, domain)
    for other in _others(path, domain, rng):
        answers = [
            answer
            for answer in other.answers
            if len(words(answer)) >= 4 and resemblance(answer, own) < 0.4 and coverage(own, answer) < 0.6
        ]
        if answers:
            return _repointed(rng.choice(answers), path, domain, rng)
    return None


def foreign_register(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """One to three claims of another question's made-up answer, with this question's subject in them."""
    own_names, subject = names_in(path.question.question), _subject(path.question.question)
    prompt = prompt_text(path)
    for other in _others(path, domain, rng):
        if not other.made_up or not subject or re.match(r"(?i)(?:yes|no)\b", other.made_up):
            continue
        names = [name for name in names_in(other.question) if name in other.made_up]
        claims = sentences(unmarked(other.made_up, domain))[: rng.randint(1, 3)]
        answer = "".join(claims).strip()
        put = replaced(answer, dict(zip(names, own_names, strict=False))) if names and own_names else answer
        if put == answer:
            put = _about(subject, answer, rng)
        if not any(holds(prompt, claim) for claim in sentences(put)) and not holds(path.answer, put):
            return _repointed(put, path, domain, rng)
    return None


def _about(subject: str, answer: str, rng: random.Random) -> str:
    """The answer opened with a subject."""
    first = answer.split()[0]
    if first.lower() in STOP_WORDS and first != "I":
        opening = rng.choice(("With regard to {}, ", "As for {}, ", "In the case of {}, "))
        return opening.format(subject) + answer[0].lower() + answer[1:]
    return rng.choice(("Regarding {}: ", "About {}: ", "On {}: ")).format(subject) + answer


def reasoned_refusal(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """A refusal with a reason composed from the question."""
    return _composed_refusal(path, domain, rng) if path.question.evidence else None


def general_knowledge(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The first claim of the sound answer, then two or three sentences that no passage holds."""
    if not path.question.evidence or path.question.kind in ("json", "code") or not path.packed:
        return None
    known = [line for line in _GENERAL_KNOWLEDGE.read_text(encoding="utf-8").splitlines() if line]
    subjects = words(path.question.question) | words(path.answer)
    context = subjects | words(prompt_text(path))
    fitting = [line for line in known if coverage(line, prompt_text(path)) < 0.5]
    rng.shuffle(fitting)
    fitting.sort(key=lambda line: -(2 * len(words(line) & subjects) + len(words(line) & context)))
    added = rng.sample(fitting[:6], min(len(fitting), rng.randint(2, 3)))
    if rng.random() < 0.4:
        added = [cited(line, rng.choice(path.packed).id) for line in added]
    return " ".join([_first_claim(path.answer, domain), *added]) if added else None


def _first_claim(answer: str, domain: Domain) -> str:
    """The answer's first sentence, and the next where the first is no more than a yes or no."""
    pieces = sentences(answer)
    first = "".join(pieces[: 1 if len(words(pieces[0])) > 1 else 2]).strip()
    return first if unmarked(first, domain)[-1:] in (".", "!", "?", ":", "。") else first + "."


# Broken citations


def permuted_marks(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer with the mark of every claim at a packed passage that does not hold it, if possible another
    claim's."""
    pieces = sentences(path.answer)
    all_marks = dict.fromkeys(marks_in(path.answer, domain))
    for at, piece in enumerate(pieces):
        own = marks_in(piece, domain)
        if not own:
            continue
        wrong = [chunk.id for chunk in path.packed if not _may_hold(chunk.id, piece, own, path, domain)]
        if not wrong:
            return None
        moved = [passage_id for passage_id in wrong if passage_id in all_marks]
        aims = {mark: rng.choice(moved or wrong) for mark in dict.fromkeys(own)}
        pieces[at] = remarked(piece, domain, aims.get)
    return "".join(pieces) if all_marks else None


def _may_hold(passage_id: str, claim: str, sources: Sequence[str], path: Path, domain: Domain) -> bool:
    """Whether a passage may bear out a claim that cites others: one of their group, or one with the same words."""
    groups = [group for group in path.question.evidence if group & set(sources)]
    if passage_id in sources or any(passage_id in group for group in groups):
        return True
    source = " ".join(domain.passages[mark].chunk for mark in sources)
    text = domain.passages[passage_id].chunk
    borne = words(claim) & words(source)
    if len(borne) < 2:
        return any(passage_id in group for group in path.question.evidence)
    missing = borne - words(text)
    return not any(word[0].isdigit() for word in missing) and len(missing) < len(borne) / 3


def last_mark_only(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer with its last mark alone, where the others marked more than that mark can stand for."""
    pieces = sentences(path.answer)
    marked = [at for at, piece in enumerate(pieces) if marks_in(piece, domain)]
    if len(marked) < 2:
        return None
    kept = marks_in(path.answer, domain)[-1]
    lost = [mark for at in marked[:-1] for mark in marks_in(pieces[at], domain)]
    if len(marked) < 3 and set(lost) <= {kept}:
        return None
    left = len(marks_in(path.answer, domain))

    def only_last(mark: str) -> str | None:
        nonlocal left
        left -= 1
        return mark if left == 0 else None

    return remarked(path.answer, domain, only_last)


def no_marks(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer without its marks."""
    return unmarked(path.answer, domain) if marks_in(path.answer, domain) else None


def ghost_marks(path: Path, domain: Domain, rng: random.Random) -> str | None:
    """The sound answer with all or some marks at chunks that are not in the prompt."""
    marks = list(dict.fromkeys(marks_in(path.answer, domain)))
    if not marks:
        return None
    chosen = marks if rng.random() < 0.5 else rng.sample(marks, rng.randint(1, len(marks)))
    ghosts = {mark: f"{GHOST}{number}" for number, mark in enumerate(chosen, start=1)}
    return remarked(path.answer, domain, lambda mark: ghosts.get(mark, mark))


GENERATION: Mapping[str, Callable[[Path, Domain, random.Random], str | None]] = {
    function.__name__: function
    for function in (
        other_answer,
        foreign_register,
        exchanged_facts,
        exaggerated,
        reasoned_refusal,
        general_knowledge,
    )
}
CITATION: Mapping[str, Callable[[Path, Domain, random.Random], str | None]] = {
    function.__name__: function for function in (permuted_marks, last_mark_only, no_marks, ghost_marks)
}
