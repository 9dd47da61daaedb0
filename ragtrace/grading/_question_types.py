"""Types of questions: the relation that a question asks of an entity, as the templates of PopQA word it.

Source: Mallen et al. (2023), "When Not to Trust Language Models", whose sixteen relations the reproduction of
Corrective RAG tells apart in its Table 4.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["question_entity", "question_type"]

_TEMPLATES: Final[tuple[tuple[str, str], ...]] = (
    ("occupation", r"what (?:is|was) .+?(?:'s|’s) (?:occupation|profession|job)"),
    ("place of birth", r"(?:in what (?:city|town|place|country)|where) was .+? born"),
    ("genre", r"what (?:genre|kind of (?:music|book|film|movie)) (?:is|are|was|were) .+?"),
    ("father", r"who (?:is|was) (?:the father of .+?|.+?(?:'s|’s) father)"),
    ("mother", r"who (?:is|was) (?:the mother of .+?|.+?(?:'s|’s) mother)"),
    ("country", r"(?:in )?(?:what|which) country (?:is|was) .+?(?: in| from| located in)?"),
    ("producer", r"who (?:is|was|were) the producers? (?:of|for) .+?|who produced .+?"),
    ("director", r"who (?:is|was|were) the directors? (?:of|for) .+?|who directed .+?"),
    ("screenwriter", r"who (?:is|was|were) the screenwriters? (?:of|for) .+?"),
    ("composer", r"who (?:is|was|were) the composers? (?:of|for) .+?|who composed .+?"),
    ("author", r"who (?:is|was|were) the (?:author|writer)s? (?:of|for) .+?|who wrote .+?"),
    ("capital of", r"what is .+? the capital of"),
    ("capital", r"what (?:is|was) the capital(?: city)? of .+?|what is .+?(?:'s|’s) capital"),
    ("color", r"(?:what|which) colou?r (?:is|are|was|were) .+?"),
    ("religion", r"what (?:is|was) (?:the religion of .+?|.+?(?:'s|’s) religion)"),
    ("sport", r"(?:what|which) sport (?:does|do|did) .+? play"),
)
_ENTITY: Final = ".+?"  # where it stands in a template
_PATTERNS: Final = tuple(
    (name, re.compile(form.replace(_ENTITY, f"({_ENTITY})"), re.IGNORECASE)) for name, form in _TEMPLATES
)
_LONGEST: Final = 500  # characters: a longer question has no such form, and anybody may send one


def question_type(question: str) -> str | None:
    """The relation that the whole question asks for, white space and marks at its end apart; None for one of another
    form, and of more than 500 characters."""
    found = _matched(question)
    return None if found is None else found[0]


def question_entity(question: str) -> str | None:
    """Of what the question asks it, in the question's own letters; None for one of another form."""
    found = _matched(question)
    return None if found is None else next(group for group in found[1].groups() if group is not None)


def _matched(question: str) -> tuple[str, re.Match[str]] | None:
    said = " ".join(question.split()).rstrip(" ?.!")
    if len(said) > _LONGEST:
        return None
    found = ((name, pattern.fullmatch(said)) for name, pattern in _PATTERNS)
    return next(((name, match) for name, match in found if match is not None), None)
