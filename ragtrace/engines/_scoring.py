"""Log-probabilities of one answer behind many prompts (teacher forcing), by a Hugging Face causal language model.

The prompts of coalitions begin alike, so the model reads the tree of their tokens: edges are packed into one row, each
token sees its ancestors alone (tree attention), and keys and values of what others go on from are kept.

Scores come by the fastest way that is right for a model. What its architecture allows, shared beginnings and padded
prompts, is found out once, with random texts in its own precision, and by its settings; the texts that are scored are
checked by a sample.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ragtrace.engines._token_tree import Edge, Pack, Piece, Root, cut_edge, grow, pack_edges
from ragtrace.engines.models import OutOfMemoryError, pass_on_unless_memory
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Abilities",
    "Scores",
    "Walk",
    "abilities",
    "positions",
    "same_scale",
    "score_batched",
    "score_shared",
    "score_verified",
    "score_whole",
    "window",
]

_LOG: Final = logging.getLogger("ragtrace")
_LEAST: Final = 128  # tokens of a pass, from which on a matrix product is efficient
_MOST: Final = 4096

Scores = NDArray[np.float64]
_POSITIONS: Final = ("max_position_embeddings", "max_seq_len", "n_positions", "n_ctx", "max_sequence_length")
_WINDOWS: Final = ("sliding_window", "attention_chunk_size", "window_size", "attention_window_size")
_RESCALED: Final = ("dynamic", "longrope")


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
    """Edges that are not read yet, each behind a beginning whose keys and values are among the `width` that are `kept`.

    Edges of several beginnings wait together, so that a pass is not spent on the few tokens behind one of them.
    """

    roots: list[Root]
    kept: Any
    width: int


@dataclass(slots=True)
class _Begun:
    """A pass that was read behind what was kept, and the pieces of it below which something is left."""

    cache: Any
    pieces: list[Piece]
    kept: Any
    width: int


class Walk:
    """One pass over the tree, depth first.

    Attributes:
        scores: `(n, own)`, once it was read.
        shifts: `(n,)`, how far each sequence's end stood in a pass from its place in the text.
    """

    def __init__(
        self, model: Any, sequences: Sequence[list[int]], own: int, size: int | None = None, workers: int = 1
    ) -> None:
        self._model = model
        self._sequences = sequences
        self._own = own
        self._size = size or max(_LEAST, min(_MOST, int(getattr(model.config, "hidden_size", _LEAST))))
        self._workers = workers
        self._cuts = False
        self.scores: Scores = np.empty((len(sequences), own))
        self.shifts: NDArray[np.int64] = np.zeros(len(sequences), dtype=np.int64)

    def read(self) -> None:
        """Read the whole tree. Raises: OutOfMemoryError, and ModelError where the model gives no numbers."""
        edges = grow([sequence[:-1] for sequence in self._sequences], self._own)
        stack: list[_Waiting | _Begun] = [_Waiting([Root(edge) for edge in edges], None, 0)]
        if self._workers > 1:
            self._read_side_by_side(stack)
        while stack:  # what is taken from it holds keys and values no longer than its step lasts
            stack += self._step(stack.pop())

    def _read_side_by_side(self, stack: list[_Waiting | _Begun]) -> None:
        """Several steps at a time. Each writes the scores of its own sequences, whichever ends first."""
        running: set[Future[list[_Waiting | _Begun]]] = set()
        with ThreadPoolExecutor(self._workers) as pool:
            while stack or running:
                while stack and len(running) < self._workers:
                    running.add(pool.submit(self._step, stack.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for step in done:
                    stack += step.result()

    def _step(self, top: _Waiting | _Begun) -> list[_Waiting | _Begun]:
        """What is to be done after one pass, or after keys and values were chosen for the next one; the last first."""
        return self._passed(top) if isinstance(top, _Waiting) else self._chosen(top)

    def _passed(self, top: _Waiting) -> list[_Waiting | _Begun]:
        size = self._size
        roots = [replace(root, edge=cut_edge(root.edge, size)) for root in top.roots] if self._cuts else list(top.roots)
        waiting = list(roots)
        try:
            read = pack_edges(roots, size)
            cache = self._read(read, top.kept, top.width)
        except RuntimeError as error:
            self._make_smaller(error, len(waiting[0].edge.tokens), waiting[0].depth)
            return [_Waiting(waiting, top.kept, top.width)]
        rest: list[_Waiting | _Begun] = [_Waiting(roots, top.kept, top.width)] if roots else []
        left = [piece for piece in read.pieces if piece.left]
        return [*rest, _Begun(cache, left, top.kept, top.width)] if left else rest

    def _chosen(self, top: _Begun) -> list[_Waiting | _Begun]:
        """As many pieces together as one pass takes; of keys and values those that one of them sees."""
        pieces, tokens = [top.pieces[0]], top.pieces[0].tokens_left
        for piece in top.pieces[1:]:
            tokens += piece.tokens_left
            if tokens > self._size:
                break
            pieces.append(piece)
        try:
            chosen, roots = _select(top.cache, pieces, top.width)
        except RuntimeError as error:
            self._make_smaller(error, pieces[0].end - pieces[0].start, pieces[0].depth)
            return [_Waiting([_again(each) for each in top.pieces], top.kept, top.width)]
        below = _Waiting(roots, chosen, len(roots[0].sees))
        del top.pieces[: len(pieces)]
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

    def _read(self, read: Pack, kept: Any, width: int) -> Any:
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
                attention_mask=_tree_mask(read, width, self._model),
                use_cache=True,
                logits_to_keep=torch.tensor(wanted or [0], device=device),
                **{_cache_name(self._model): cache},
            ).logits[0]
        if leaves:
            targets = [token for _, number in leaves for token in self._sequences[number][-self._own :]]
            log_probabilities = _log_probabilities(logits, targets).reshape(len(leaves), self._own)
            numbers = [number for _, number in leaves]
            self.scores[numbers] = log_probabilities
            self.shifts[numbers] = [width + piece.start - piece.depth for piece, _ in leaves]
        return cache


def _cache_name(model: Any) -> str:
    """How the library calls keys and values that are kept: `cache` in newer releases, which warn of the older name."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


def _tree_mask(read: Pack, width: int, model: Any) -> torch.Tensor:
    """(1, 1, size, width + size), added to the scores: 0 where a token sees another one, else the least number.

    A token sees what is kept of its beginning, its ancestors in the pack, and its own edge up to itself: of all that
    stands before it in the pack, what is on its path. It is spread over tokens where the model is, so that little is
    sent there.
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
    kept = torch.from_numpy(np.stack([piece.root.sees for piece in read.pieces])).to(device)[owners]
    mask = torch.zeros((read.size, width + read.size), dtype=dtype, device=device)
    mask.masked_fill_(~torch.cat([kept, sees], dim=1), torch.finfo(dtype).min)
    return mask[None, None]


def _again(piece: Piece) -> Root:
    """What stands below a piece, to be read once more together with the path down to it."""
    edge = Edge([token for each in piece.path() for token in each.edge.tokens], piece.left)
    return replace(piece.root, edge=edge)


def _select(cache: Any, pieces: Sequence[Piece], width: int) -> tuple[list[tuple[Any, Any]], list[Root]]:
    """Keys and values of what these pieces and their paths see, and what is left below each behind them."""
    import torch

    held = cache.layers[0].keys.shape[2]
    seen = np.zeros((len(pieces), held), dtype=np.bool_)
    for row, piece in zip(seen, pieces, strict=True):
        row[:width] = piece.root.sees
        for each in piece.path():
            row[width + each.start : width + each.end] = True
    places = np.flatnonzero(seen.any(axis=0))
    roots = [
        Root(edge, piece.depth + len(piece.edge.tokens), row)
        for row, piece in zip(seen[:, places], pieces, strict=True)
        for edge in piece.left
    ]
    if len(places) == held:  # all of it: nothing is copied
        return [(layer.keys, layer.values) for layer in cache.layers], roots
    chosen = torch.from_numpy(places).to(cache.layers[0].keys.device)
    kept = [(layer.keys.index_select(2, chosen), layer.values.index_select(2, chosen)) for layer in cache.layers]
    return kept, roots


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
    log_probabilities = rows.gather(-1, chosen[:, None])[:, 0] - rows.logsumexp(-1)
    scores: Scores = log_probabilities.double().cpu().numpy()
    if np.isnan(scores).any():
        raise ModelError("the model's logits are not numbers (NaN); load it in float32, or another one")
    return scores


def positions(config: Any) -> int | None:
    """Of a prompt and what follows it; None where nothing limits them."""
    return _least(_of_text(config), _POSITIONS)


def window(config: Any) -> int | None:
    """Tokens that a token of some layer sees at most; None where each sees all before it."""
    text = _of_text(config)
    if getattr(text, "use_sliding_window", True) is False:
        return None
    one_sided = _least(text, _WINDOWS)
    both_sides = _least(text, ("local_attention",))
    sizes = [size for size in (one_sided, both_sides and both_sides // 2) if size]
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


_OWN: Final = 8  # tokens of a random text that are scored
_BEGINNING: Final = 4
_BRANCHES: Final = 4
_LENGTH: Final = 24  # tokens of a branch
_SHORTEST_WINDOW, _LONGEST_WINDOW = 32, 1024  # where random texts can tell more than the settings do
_ROUNDING: Final = 4.0  # times the rounding that was measured
_LEAST_DIFFERENCE: Final = 1e-3  # nats: of less than that no difference is made
_KNOWN: Final[WeakKeyDictionary[Any, Abilities]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Abilities:
    """What holds for all texts that a model reads.

    Attributes:
        unshared: why it cannot read a tree of texts; None where it can.
        pads: whether padding at the left leaves its scores as they are.
        tolerance: the difference of scores that rounding explains.
    """

    unshared: str | None
    pads: bool
    tolerance: float


@dataclass(frozen=True, slots=True)
class _Compared:
    """Of an answer, the length and the shift up to which sequences were compared with being read alone."""

    answer: tuple[int, ...]
    length: int = 0
    shift: int = -1


_COMPARED: Final[WeakKeyDictionary[Any, _Compared]] = WeakKeyDictionary()


def score_verified(
    model: Any, sequences: Sequence[list[int]], own: int, *, pack_size: int | None = None, workers: int = 1
) -> Scores:
    """As `score_shared`, if the model reads a tree as it reads a text; else it reads whole sequences, with a warning.

    workers: passes side by side, each in a thread.

    Raises: ModelError, OutOfMemoryError as `score_whole`.
    """
    if len(sequences) == 1:
        return score_batched(model, sequences, own)
    try:
        reason = _why_unshared(model, max(map(len, sequences)), workers)
        if reason is None:
            walk = Walk(model, sequences, own, pack_size, workers)
            walk.read()
            reason = _difference(model, sequences, own, walk, workers)
            if reason is None:
                return walk.scores
    except OutOfMemoryError as error:
        reason = str(error)
    _LOG.warning("%s cannot share beginnings (%s); it reads each prompt whole", type(model).__name__, reason)
    return score_whole(model, sequences, own)


def score_whole(model: Any, sequences: Sequence[list[int]], own: int, *, batch: int = 16) -> Scores:
    """As `score_batched`, but one by one where sequences cannot be padded.

    Raises: OutOfMemoryError, and ModelError for a model whose logits are no numbers.
    """
    lengths = {len(sequence) for sequence in sequences}
    if batch > 1 and len(lengths) > 1:
        scale = same_scale(model.config)
        if (scale is not None and max(lengths) > scale) or not _pads(model):
            batch = 1
    return score_batched(model, sequences, own, batch=batch)


def _pads(model: Any) -> bool:
    """Whether padding is known to change nothing: it is not where there was no memory to find out."""
    try:
        return abilities(model).pads
    except OutOfMemoryError:
        return False


def abilities(model: Any, workers: int = 1) -> Abilities:
    """Found out when a model is first asked for, then kept as long as the model. workers: passes side by side.

    Raises: OutOfMemoryError, and ModelError for a model whose logits are no numbers.
    """
    known = _KNOWN.get(model)
    if known is None:
        known = _KNOWN[model] = _tried(model, workers)
    return known


def _why_unshared(model: Any, longest: int, workers: int) -> str | None:
    for limit, what in ((window(model.config), "a window"), (same_scale(model.config), "positions")):
        if limit is not None and longest > limit:
            return f"{longest} tokens pass {what} of {limit}"
    return abilities(model, workers).unshared


def _difference(model: Any, sequences: Sequence[list[int]], own: int, walk: Walk, workers: int) -> str | None:
    """By how much too much the scores of the longest sequence are off, and of that least in one piece.

    A game asks for its subsets in several calls: of one answer, what is neither longer nor in more pieces than what was
    compared is not compared again.
    """
    longest = max(range(len(sequences)), key=lambda number: len(sequences[number]))
    apart_most = int(np.argmax(walk.shifts))
    answer, length, shift = tuple(sequences[longest][-own:]), len(sequences[longest]), int(walk.shifts[apart_most])
    before = _COMPARED.get(model)
    if before is None or before.answer != answer:
        before = _Compared(answer)
    further = ([longest] if length > before.length else []) + ([apart_most] if shift > before.shift else [])
    numbers = list(dict.fromkeys(further))
    if not numbers:
        return None
    sample = [sequences[number] for number in numbers]
    try:
        alone = _alone(model, sample, own, workers)
    except OutOfMemoryError:  # the tree was read in smaller passes than a whole text
        return None
    apart = _root_mean_square(walk.scores[numbers] - alone)
    if apart <= abilities(model).tolerance:
        _COMPARED[model] = _Compared(answer, max(length, before.length), max(shift, before.shift))
        return None
    rounding = _root_mean_square(score_whole(model, sample, own) - alone)
    if apart <= _ROUNDING * rounding:
        return None
    return f"its log-probabilities would differ by {apart:.3g}"


def _alone(model: Any, sequences: Sequence[list[int]], own: int, workers: int) -> Scores:
    """Scores of each sequence read by itself, `workers` of them side by side."""
    if workers == 1:
        return score_batched(model, sequences, own, batch=1)
    with ThreadPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(lambda each: score_batched(model, [each], own, batch=1), sequences)))


def _tried(model: Any, workers: int) -> Abilities:
    """What reading random texts in each way gives, beside reading each alone."""
    size = window(model.config)
    texts = _random_texts(model, size)
    alone = _alone(model, texts, _OWN, workers)
    padded = score_batched(model, texts, _OWN, batch=len(texts)) - alone
    equal = score_batched(model, [texts[0]] * 2, _OWN, batch=2) - alone[0]
    tolerance = max(_LEAST_DIFFERENCE, 2 * _precision(model) * float(alone.std()), _ROUNDING * _typical(equal))
    pads = _typical(padded) <= tolerance
    if pads:
        tolerance = max(tolerance, _ROUNDING * _typical(padded))
    unshared = f"a window of {size}" if size is not None and size < _SHORTEST_WINDOW else None
    if unshared is None:
        unshared = _why_no_tree(model, texts, alone, tolerance, workers)
    return Abilities(unshared, pads, tolerance)


def _why_no_tree(model: Any, texts: Sequence[list[int]], alone: Scores, tolerance: float, workers: int) -> str | None:
    try:
        scores = []
        for pack_size in (sum(map(len, texts)), max(map(len, texts))):  # all in one pass, and in several
            walk = Walk(model, texts, _OWN, pack_size, workers)
            walk.read()
            scores.append(walk.scores)
    except OutOfMemoryError:
        raise
    except Exception as error:  # each architecture that takes no tree has its own way to say so
        return f"{type(error).__name__}: {error}"
    apart = max(_typical(each - alone) for each in scores)
    return None if apart <= tolerance else f"its log-probabilities of random texts differ by {apart:.3g}"


def _random_texts(model: Any, size: int | None) -> list[list[int]]:
    """Texts that begin alike and stand far from their places in one row; none is longer than a window, all are."""
    embeddings = model.get_input_embeddings()
    vocabulary = int(getattr(embeddings, "num_embeddings", None) or model.config.vocab_size)
    draw = np.random.default_rng(0)

    def some(count: int) -> list[int]:
        return [int(each) for each in draw.integers(vocabulary // 5, vocabulary, size=count)]

    room = (size if size is not None and size <= _LONGEST_WINDOW else 4 * _LENGTH) - _OWN - _BEGINNING
    length = max(_LENGTH // 4, room // 2)
    beginning, shared = some(_BEGINNING), some(length // 2)
    branches = [[], [*shared, *some(length // 2)], [*shared, *some(length)], *(some(length) for _ in range(_BRANCHES))]
    return [[*beginning, *branch, *some(_OWN)] for branch in branches]


def _precision(model: Any) -> float:
    import torch

    return float(torch.finfo(model.dtype).eps)


def _typical(differences: Scores) -> float:
    """The median difference of the text that is worst: an expert chosen otherwise by rounding moves few tokens."""
    return float(np.median(np.abs(differences), axis=1).max())


def _root_mean_square(numbers: Scores) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))
