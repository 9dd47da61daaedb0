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
    (name, re.compile(rf"\s*(?:{form.replace(_ENTITY, f'({_ENTITY})')})\s*[?.!]*\s*", re.IGNORECASE))
    for name, form in _TEMPLATES
)


def question_type(question: str) -> str | None:
    """The relation that the whole question asks for; None for one of another form."""
    return next((name for name, pattern in _PATTERNS if pattern.fullmatch(question)), None)


def question_entity(question: str) -> str | None:
    """Of what the question asks it, as it stands there; None for one of another form."""
    found = next((match for _, pattern in _PATTERNS if (match := pattern.fullmatch(question))), None)
    return None if found is None else next(group for group in found.groups() if group is not None)
