"""What the settings of a Hugging Face language model say of how far it reads."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["positions", "same_scale", "window"]

_POSITIONS: Final = ("max_position_embeddings", "max_seq_len", "n_positions", "n_ctx", "max_sequence_length")
_WINDOWS: Final = ("sliding_window", "attention_chunk_size", "window_size", "attention_window_size")
_RESCALED: Final = ("dynamic", "longrope")


def positions(config: Any) -> int | None:
    """Of a prompt and what follows it; None where nothing limits them."""
    return _least(_of_text(config), _POSITIONS)


def window(config: Any) -> int | None:
    """Tokens that a token of some layer sees at most; None where each sees all before it."""
    text = _of_text(config)
    if getattr(text, "use_sliding_window", True) is False:
        return None
    found = _least(text, _WINDOWS)
    both_sides = _least(text, ("local_attention",))
    sizes = [size for size in (found, both_sides and both_sides // 2) if size]
    return min(sizes, default=None)


def same_scale(config: Any) -> int | None:
    """Up to so many positions a token's place is written alike, however long the longest text of a pass is."""
    text = _of_text(config)
    rotary = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None)
    parts = [rotary, *rotary.values()] if isinstance(rotary, dict) else []
    for part in parts:  # one for all layers, or one for each kind of them
        if isinstance(part, dict) and part.get("rope_type", part.get("type")) in _RESCALED:
            original = part.get("original_max_position_embeddings")
            return int(original or getattr(text, "original_max_position_embeddings", None) or positions(config) or 0)
    return None


def _of_text(config: Any) -> Any:
    """The settings of the language model where there are others, of images, beside it."""
    find = getattr(config, "get_text_config", None)
    return find(decoder=True) if find is not None else config


def _least(config: Any, names: tuple[str, ...]) -> int | None:
    found = [getattr(config, name, None) for name in names]
    return min((each for each in found if isinstance(each, int) and each > 0), default=None)
