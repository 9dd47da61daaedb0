"""A question and a chunk as a classifier reads them, token by token: the grade where some tokens are hidden, and its
gradients, for what attributes the grade to them.

A token that is hidden is the model's mask, or what it has in its place (`unk`, `pad`), so that positions stay and the
text around is read as it was: the masker of SHAP's explanations of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ragtrace.attribution import Attribution, integrated_gradients_of_many
from ragtrace.engines._gradients import TokenGradients, embedded
from ragtrace.engines.tokens import Baseline, Token
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines._pair_encoding import Place

__all__ = ["PairSide", "PairToken", "PairTokens"]

PairSide: TypeAlias = Literal["question", "document", "separator", "special"]
_SIDES: Final[dict[str, PairSide]] = {
    "short": "question", "long": "document", "separator": "separator", "special": "special",
}  # fmt: skip
_HIDDEN: Final[tuple[Baseline, ...]] = ("mask", "unk", "pad")
_MOVED: Final = "query"  # what `TokenGradients` calls the tokens that move from the baseline on


@dataclass(frozen=True, slots=True)
class PairToken:
    """A token; it stands at `text[start:end]` of its side's text. Separators and special tokens stand nowhere."""

    text: str
    side: PairSide
    start: int
    end: int


class PairTokens:
    """A pair as one classifier reads it.

    tokens: all of them. players: the numbers of those that may be hidden: all but the special ones at both ends.
    question, document: what was read of both: of the chunk the window that has the grade.

    Args:
        judge: features to `(n,)` grades in [-1, 1].
        score: a batch to a tensor `(n,)` of grades, before calibration, for gradients.

    Raises: ModelError for a model without a token to hide others with.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        read: tuple[dict[str, list[int]], Sequence[Place]],
        texts: tuple[str, str],
        judge: Callable[[list[dict[str, list[int]]]], NDArray[np.float64]],
        score: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.question, self.document = texts
        self._name, self._model, self._tokenizer = name, model, tokenizer
        self._features, places = read
        self._judge, self._score = judge, score
        names = tokenizer.convert_ids_to_tokens(self._features["input_ids"])
        self.tokens = tuple(
            PairToken(name, _SIDES[side], *self._placed(_SIDES[side], start, end))
            for name, (side, start, end) in zip(names, places, strict=True)
        )
        self.players = tuple(at for at, token in enumerate(self.tokens) if token.side != "special")
        known = {each: getattr(tokenizer, f"{each}_token_id", None) for each in _HIDDEN}
        self._baseline = next((each for each in _HIDDEN if known[each] is not None), None)
        if self._baseline is None:
            raise ModelError(f"the tokenizer of {name!r} has no mask, unk or pad token; words explain its grades")
        self._hidden = int(known[self._baseline] or 0)

    def _placed(self, side: PairSide, start: int, end: int) -> tuple[int, int]:
        """A space that is a token by itself has the place of the character that it stands before."""
        text = {"question": self.question, "document": self.document}.get(side)
        if text is None or start < end or not text:
            return start, end
        start = min(end, len(text) - 1)
        return start, start + 1

    def grades(self, coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The grade where only some players are read: `(n, players)` to `(n,)`."""
        ids = self._features["input_ids"]
        read = []
        for row in coalitions:
            shown = list(ids)
            for player, is_there in zip(self.players, row, strict=True):
                if not is_there:
                    shown[player] = self._hidden
            read.append(self._features | {"input_ids": shown})
        return self._judge(read)

    def integrated_gradients(self) -> Attribution:
        """Integrated Gradients of the grade before calibration, from all players hidden on: `(players,)`."""
        import numpy as np
        import torch

        features = {key: torch.tensor([value], device=self._model.device) for key, value in self._features.items()}
        text = embedded(self._name, self._model, features, lambda given: self._model(**given), self._tokenizer)
        moving = set(self.players)
        tokens = tuple(
            Token(token.text, token.start, token.end, _MOVED if at in moving else "special")
            for at, token in enumerate(self.tokens)
        )
        assert self._baseline is not None

        def score(given: dict[str, Any], _: Sequence[int]) -> Any:
            return self._score(given | self._repeated(text.layer, given["input_ids"]))

        scored = TokenGradients(
            self._name,
            [text],
            [tokens],
            frozenset({_MOVED}),
            score,
            self._baseline,
        )
        (found,) = integrated_gradients_of_many(
            scored.value_and_grad, scored.inputs, scored.baselines, value=scored.value
        )
        return Attribution(np.asarray(found.values)[list(self.players)], found.completeness_delta, found.n_evaluations)

    def _repeated(self, layer: Any, ids: Any) -> dict[str, Any]:
        """What the decoder of a T5 reads: the same tokens, one place later; they move with those of the encoder."""
        import torch

        config = self._model.config
        if not getattr(config, "is_encoder_decoder", False):
            return {}
        start = layer(torch.full_like(ids[:, :1], config.decoder_start_token_id))
        return {"decoder_inputs_embeds": torch.cat([start, layer(ids)[:, :-1]], dim=1)}
