"""Is a question in English? Questions are short, so the words that ask count beside the function words."""

from __future__ import annotations

from typing import Final

from ragtrace.coverage.text import is_english, words

__all__ = ["is_english_question"]

_ASKING: Final = frozenset(
    """wie wann welche welcher welches wer warum wieviel hoch quel quelle quels quelles comment pourquoi quand combien
    qué cuál cuándo cómo cuánto cuánta dónde quién quale quali quanto quanta perché quando qual quanto hoeveel welke
    wanneer waar waarom vad när hur vilken hvad hvornår hvor jaki jaka kiedy ile""".split()
)


def is_english_question(text: str) -> bool:
    """Whether the rules for English fit: no word that asks in another language, and `is_english`."""
    return is_english(text) and not any(word.casefold() in _ASKING for word in words(text[:1000]))
