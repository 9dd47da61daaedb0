"""Teacher-forced log-probabilities of one answer behind many prompts, by a Hugging Face causal language model.

The prompts of coalitions begin alike, so the model reads the tree of their tokens: edges are packed into one row, each
token sees its ancestors alone (tree attention), and keys and values of what others go on from are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtrace.engines.memory import OutOfMemoryError, pass_on_unless_memory
from ragtrace.engines.trie import Edge, Pack, Piece, cut, grow, pack
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import torch

__all__ = ["Scores", "Walk", "score_batched", "score_shared"]

_LOG: Final = logging.getLogger("ragtrace")
_LEAST: Final = 128  # tokens of a pass, from which on a matrix product is efficient
_MOST: Final = 4096

Scores = NDArray[np.float64]


def score_shared(model: Any, sequences: Sequence[list[int]], own: int, *, pack_size: int | None = None) -> Scores:
    """Log-probabilities of the last `own` tokens of each sequence, (n, own); each shared beginning is read once.

    pack_size: tokens of one pass; by default as many as the model's width, where attention to what is masked still
    costs little. A pass that needs more memory than there is, is tried again with half of that.

    Raises: OutOfMemoryError when even the smallest pass finds no memory.
    """
    walk = Walk(model, sequences, own, pack_size)
    walk.read()
    return walk.scores


@dataclass(slots=True)
class _Waiting:
    """Edges that are not read yet, behind a beginning of `depth` tokens whose keys and values are `kept`."""

    edges: list[Edge]
    kept: Any
    depth: int


@dataclass(slots=True)
class _Begun:
    """A pass that was read behind such a beginning, and the pieces of it below which something is left."""

    cache: Any
    pieces: list[Piece]
    kept: Any
    depth: int


class Walk:
    """One pass over the tree, depth first.

    Attributes:
        scores: `(n, own)`, once it was read.
        shifts: `(n,)`, how far each sequence's end stood in a pass from its place in the text.
    """

    def __init__(self, model: Any, sequences: Sequence[list[int]], own: int, size: int | None = None) -> None:
        self._model = model
        self._sequences = sequences
        self._own = own
        self._size = size or max(_LEAST, min(_MOST, int(getattr(model.config, "hidden_size", _LEAST))))
        self._cuts = False
        self.scores: Scores = np.empty((len(sequences), own))
        self.shifts: NDArray[np.int64] = np.zeros(len(sequences), dtype=np.int64)

    def read(self) -> None:
        """Read the whole tree. Raises: OutOfMemoryError, and ModelError where the model gives no numbers."""
        edges = grow([sequence[:-1] for sequence in self._sequences], self._own)
        stack: list[_Waiting | _Begun] = [_Waiting(edges, None, 0)]
        while stack:  # what is taken from it holds keys and values no longer than its step lasts
            stack += self._step(stack.pop())

    def _step(self, top: _Waiting | _Begun) -> list[_Waiting | _Begun]:
        """What is to be done after one pass, or after keys and values were chosen for the next one; the last first."""
        return self._passed(top) if isinstance(top, _Waiting) else self._chosen(top)

    def _passed(self, top: _Waiting) -> list[_Waiting | _Begun]:
        edges = [cut(edge, self._size) for edge in top.edges] if self._cuts else list(top.edges)
        waiting = list(edges)
        try:
            read = pack(edges, top.depth, self._size)
            cache = self._read(read, top.kept, top.depth)
        except RuntimeError as error:
            self._make_smaller(error, len(waiting[0].tokens), top.depth)
            return [_Waiting(waiting, top.kept, top.depth)]
        rest: list[_Waiting | _Begun] = [_Waiting(edges, top.kept, top.depth)] if edges else []
        left = [piece for piece in read.pieces if piece.left]
        return [*rest, _Begun(cache, left, top.kept, top.depth)] if left else rest

    def _chosen(self, top: _Begun) -> list[_Waiting | _Begun]:
        piece = top.pieces[0]
        try:
            chosen = _select(top.cache, piece, top.depth)
        except RuntimeError as error:
            self._make_smaller(error, piece.end - piece.start, piece.depth)
            return [_Waiting([_again(each) for each in top.pieces], top.kept, top.depth)]
        below = _Waiting(piece.left, chosen, piece.depth + len(piece.edge.tokens))
        del top.pieces[0]
        return [top, below] if top.pieces else [below]

    def _make_smaller(self, error: RuntimeError, tokens: int, depth: int) -> None:
        """Halve the passes after want of memory, and cut what is longer; other errors are passed on."""
        pass_on_unless_memory(error)
        if self._size <= 1:
            raise OutOfMemoryError(
                f"the model finds no memory for {tokens} tokens behind {depth} others; use a smaller one or another "
                "device"
            ) from error
        self._size //= 2
        self._cuts = True
        _LOG.warning("out of memory; the model goes on with %s tokens at a time", self._size)

    def _read(self, read: Pack, kept: Any, depth: int) -> Any:
        """One pass of the model: scores of the leaves, and the keys and values of all."""
        import torch
        from transformers import DynamicCache

        device = self._model.device
        ids = torch.tensor([[token for piece in read.pieces for token in piece.edge.tokens]], device=device)
        places = [piece.depth + at for piece in read.pieces for at in range(len(piece.edge.tokens))]
        leaves = [(piece, piece.edge.sequence) for piece in read.pieces if piece.edge.sequence is not None]
        wanted = [place for piece, _ in leaves for place in range(piece.start, piece.end)]
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(kept or ()):
            cache.update(keys, values, layer)
        with torch.inference_mode():
            logits = self._model(
                input_ids=ids,
                position_ids=torch.tensor([places], device=device),
                attention_mask=_tree_mask(read, depth, self._model),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=torch.tensor(wanted or [0], device=device),
            ).logits[0]
        if leaves:
            targets = [token for _, number in leaves for token in self._sequences[number][-self._own :]]
            found = _log_probabilities(logits, targets).reshape(len(leaves), self._own)
            numbers = [number for _, number in leaves]
            self.scores[numbers] = found
            self.shifts[numbers] = [depth + piece.start - piece.depth for piece, _ in leaves]
        return cache


def _tree_mask(read: Pack, depth: int, model: Any) -> torch.Tensor:
    """(1, 1, size, depth + size), added to the scores: 0 where a token sees another one, else the least number.

    A token sees what is kept, its ancestors in the pack, and its own edge up to itself: of all that stands before it in
    the pack, what is on its path. It is spread over tokens where the model is, so that little is sent there.
    """
    import torch

    device, dtype = model.device, model.dtype
    on_path = torch.zeros((len(read.pieces), len(read.pieces)), dtype=torch.bool)
    places = {id(piece): place for place, piece in enumerate(read.pieces)}
    for place, piece in enumerate(read.pieces):
        if piece.parent is not None:
            on_path[place] = on_path[places[id(piece.parent)]]
        on_path[place, place] = True
    owners = torch.tensor([at for at, each in enumerate(read.pieces) for _ in each.edge.tokens], device=device)
    sees = on_path.to(device)[owners][:, owners].tril()
    mask = torch.zeros((read.size, depth + read.size), dtype=dtype, device=device)
    mask[:, depth:].masked_fill_(~sees, torch.finfo(dtype).min)
    return mask[None, None]


def _again(piece: Piece) -> Edge:
    """What stands below a piece, to be read once more together with the path down to it."""
    return Edge([token for each in piece.path() for token in each.edge.tokens], piece.left)


def _select(cache: Any, piece: Piece, depth: int) -> list[tuple[Any, Any]]:
    """Keys and values of what was kept and of the path down to a piece."""
    import torch

    places = list(range(depth))
    for each in piece.path():
        places += range(depth + each.start, depth + each.end)
    if len(places) == cache.layers[0].keys.shape[2]:  # all of it: nothing is copied
        return [(layer.keys, layer.values) for layer in cache.layers]
    chosen = torch.tensor(places, device=cache.layers[0].keys.device)
    return [(layer.keys.index_select(2, chosen), layer.values.index_select(2, chosen)) for layer in cache.layers]


def score_batched(model: Any, sequences: Sequence[list[int]], own: int, *, batch: int = 16) -> Scores:
    """The same with whole sequences, `batch` at a time by length, padded at the left.

    Raises: OutOfMemoryError when even a single sequence finds none.
    """
    scores = np.empty((len(sequences), own))
    waiting = sorted(range(len(sequences)), key=lambda number: len(sequences[number]))
    while waiting:
        some = waiting[:batch]
        try:
            scores[some] = _read_padded(model, [sequences[number] for number in some], own)
        except RuntimeError as error:
            pass_on_unless_memory(error)
            if batch == 1:
                raise OutOfMemoryError(
                    f"the model finds no memory for {len(sequences[some[0]])} tokens; use a smaller one or another "
                    "device"
                ) from error
            batch = max(1, batch // 2)
            _LOG.warning("out of memory; the model goes on with %s prompts at a time", batch)
            continue
        waiting = waiting[batch:]
    return scores


def _read_padded(model: Any, sequences: Sequence[list[int]], own: int) -> Scores:
    import torch

    longest = max(len(sequence) for sequence in sequences) - 1
    gaps = [longest - len(sequence) + 1 for sequence in sequences]
    ids = torch.tensor([[0] * gap + list(sequence[:-1]) for gap, sequence in zip(gaps, sequences, strict=True)])
    mask = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps])
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.inference_mode():
        logits = model(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            position_ids=places.to(model.device),
            use_cache=False,
            logits_to_keep=own,
        ).logits
    targets = [token for sequence in sequences for token in sequence[-own:]]
    return _log_probabilities(logits.flatten(0, 1), targets).reshape(len(sequences), own)


def _log_probabilities(logits: torch.Tensor, targets: Sequence[int]) -> Scores:
    """(n,) in float32: of each row's target. Raises: ModelError where the model gives no numbers."""
    import torch

    chosen = torch.tensor(targets, device=logits.device)
    rows = logits.float()
    found = rows.gather(-1, chosen[:, None])[:, 0] - rows.logsumexp(-1)
    scores: Scores = found.double().cpu().numpy()
    if np.isnan(scores).any():
        raise ModelError("the model's logits are not numbers (NaN); load it in float32, or another one")
    return scores
