"""Is a question in English? Questions are short, so the words that ask count beside the function words."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ragtrace.coverage.text import is_english, words

__all__ = ["is_english_question"]

_ASKING: Final = frozenset(
    """wie wann welche welcher welches wer warum wieviel hoch quel quelle quels quelles comment pourquoi quand combien
    qué cuál cuándo cómo cuánto cuánta dónde quién quale quali quanto quanta perché quando qual quanto hoeveel welke
    wanneer waar waarom vad när hur vilken hvad hvornår hvor jaki jaka kiedy ile
    eine einen einer kostet gibt haben werden wird laut seit beim zum zur vom nach sont cuesta dice tiene puede heeft
    geldt voor""".split()
)


@lru_cache(maxsize=4096)
def is_english_question(text: str) -> bool:
    """Whether the rules for English fit: no word that only other languages have, and `is_english`."""
    return is_english(text) and _ASKING.isdisjoint(map(str.casefold, words(text[:1000])))
