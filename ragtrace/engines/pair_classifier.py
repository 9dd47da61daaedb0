"""Any sequence classifier of pairs behind a role: loaded by folder or name, batched, windowed, each pair read once.

Token by token, a judge of relevance gives the grade where some tokens are hidden, and its gradients, for what
attributes the grade to them (`PairTokens`). A token that is hidden is the model's mask, or what it has in its place
(`unk`, `pad`), so that positions stay and the text around is read as it was: the masker of SHAP's explanations of
texts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias

from ragtrace.attribution import Attribution, integrated_gradients_of_many
from ragtrace.coverage.verifier import gather
from ragtrace.engines._gradients import TokenGradients, embedded
from ragtrace.engines.calibration import FILE, Calibration
from ragtrace.engines.models import (
    NumberFormat,
    OutOfMemoryError,
    best_device,
    device_of,
    load_package,
    load_pretrained,
    pass_on_unless_memory,
    passes,
    resolve,
    torch_threads,
    weights_digest,
)
from ragtrace.engines.text_pairs import (
    CACHE_BYTES,
    Outputs,
    PairCache,
    Role,
    encode_pairs,
    located,
    pair_key,
    read_form,
    read_outputs,
    windows,
    without_special_tokens,
)
from ragtrace.engines.tokens import Baseline, Token, readable
from ragtrace.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair
    from ragtrace.engines.text_pairs import Place

__all__ = ["SETTINGS", "PairClassifier", "PairSide", "PairToken", "PairTokens", "RelevanceClassifier"]

SETTINGS: Final = "verifier.json"
"""What a trained verifier's folder says of its own reading: `max_tokens`, `marks_shared_words`, `best_sentences`."""
BATCH: Final = 16
_LONGEST: Final = 512


class PairClassifier:
    """A classifier of pairs (short, long) in one role, with the calibration of its probabilities where there is one.

    Attributes:
        name: what to call it; stored with what it judged.
        roles: what it is asked; one role.
        calibration: None where the probabilities are the model's own.
    """

    default_role: ClassVar[Role]

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        role: Role | None = None,
        labels: Sequence[str] | None = None,
        max_tokens: int | None = None,
        marked: bool = False,
        best_sentences: int | None = None,
        calibrations: Mapping[Role, Calibration] | None = None,
        precision: NumberFormat = "float32",
        batch_size: int = BATCH,
        threads: int | None = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if batch_size < 1:
            raise ConfigurationError.of("batch size", batch_size, "1 or more")
        role = role or self.default_role
        self.name = name
        self.roles: frozenset[Role] = frozenset({role})
        self.batch_size = batch_size
        self._calibrations = dict(calibrations or {})
        self.calibration: Calibration | None = self._calibrations.get(role)
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._outputs = read_outputs(name, model.config, labels, role=role)
        self._form = read_form(name, model.config, tokenizer, role)
        self._max_tokens = min(max_tokens or _LONGEST, _window(model, tokenizer))
        self._marked = marked
        self._best_sentences = best_sentences
        self._precision = precision
        self._threads = threads
        self._digest = ""
        self._cache = PairCache(cache_bytes)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        role: Role | None = None,
        labels: Sequence[str] | None = None,
        calibration: str | Path | None = None,
        calibrated: bool = True,
        device: str | None = None,
        precision: NumberFormat = "float32",
        max_tokens: int | None = None,
        batch_size: int = BATCH,
        threads: int | None = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> Self:
        """Load a sequence classifier from a folder, or by its Hugging Face name. Code that it brings is not run.

        labels: what its outputs mean, in their order, where its config does not say. calibration: a file, for this
        role; by default that of the folder, if it is there (`calibration.json` for `entails`, `calibration-ROLE.json`
        for the other roles). calibrated: False for the model's own probabilities. device: as torch names them; by
        default a GPU, if there is one. precision: bf16 is faster where the device has it. max_tokens: of both texts
        together. threads: of torch on the CPU; None leaves them alone. cache_bytes: for what was said of pairs before;
        0: nothing is kept.

        Raises: ModelError when it cannot be loaded, its outputs cannot be told, or the calibration is another model's;
        MissingExtraError without the models extra.
        """
        role = role or cls.default_role
        loaded, tokenizer = _loaded(model)
        settings = _settings(model)
        return cls(
            Path(model).name,
            loaded.to(device or best_device()),
            tokenizer,
            role=role,
            labels=labels,
            max_tokens=max_tokens or settings.get("max_tokens"),
            marked=bool(settings.get("marks_shared_words", False)),
            best_sentences=settings.get("best_sentences"),
            precision=precision,
            calibrations=_calibrations(model, role, calibration, loaded) if calibrated else None,
            batch_size=batch_size,
            threads=threads,
            cache_bytes=cache_bytes,
        )

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like."""
        return device_of(self._model)

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        self._digest = self._digest or weights_digest(self._model)
        return self._digest

    def probabilities(
        self, pairs: Sequence[Pair], *, on_progress: Callable[[int], None] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How likely each pair is what the role asks for, and its contradiction, as the model says: the largest over
        the windows. Every distinct pair is read once, and not again while it is in the cache.

        on_progress: gets the number of windows just read.

        Raises: OutOfMemoryError when there is no memory for a single window, ModelError for scores that are no numbers.
        """
        import numpy as np

        keys = [pair_key(*pair) for pair in pairs]
        said = {key: self._cache.get(key) for key in keys}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if said[key] is None}
        fresh = dict(zip(missing, self._judged(list(missing.values()), on_progress or (lambda _: None)), strict=True))
        self._cache.put(fresh)
        rows = [fresh.get(key) or said[key] for key in keys]
        found = np.array(rows, dtype=np.float64).reshape(len(pairs), 2)
        return found[:, 0], found[:, 1]

    def _judged(self, pairs: Sequence[Pair], on_progress: Callable[[int], None]) -> list[tuple[float, float]]:
        import numpy as np

        owners: list[int] = []
        read: list[Pair] = []
        for number, pair in enumerate(pairs):
            short, long = (without_special_tokens(self._tokenizer, readable(text)) for text in pair)
            for window in self._windows(short, long):
                owners.append(number)
                read.append((short, window))
        largest = np.zeros((len(pairs), 2))
        np.maximum.at(largest, owners, self._read(read, on_progress))
        return [(yes, against) for yes, against in largest.tolist()]

    def _windows(self, short: str, long: str) -> list[str]:
        """All windows; of a verifier that was trained so, the sentences that are nearest to the claim."""
        if self._best_sentences is not None:
            return [gather(short, [long], limit=self._best_sentences)]
        return windows(self._tokenizer, short, long, self._max_tokens, self._form)

    def _read(self, pairs: Sequence[Pair], on_progress: Callable[[int], None]) -> NDArray[np.float64]:
        """What the model says of pairs that fit, each distinct one read once, those of one length together."""
        import numpy as np

        distinct = list(dict.fromkeys(pairs))
        features = (
            encode_pairs(self._tokenizer, distinct, self._max_tokens, marked=self._marked, form=self._form)
            if distinct
            else []
        )
        order = sorted(range(len(distinct)), key=lambda place: len(features[place]["input_ids"]))
        said = np.zeros((len(distinct), 2))
        with torch_threads(self._threads):
            for places in _batches(order, self.batch_size):
                said[places] = self._classified([features[place] for place in places])
                on_progress(len(places))
        if not np.isfinite(said).all():
            raise ModelError(f"model {self.name!r} gives scores that are no numbers; check its weights and precision")
        place_of = {pair: place for place, pair in enumerate(distinct)}
        return said[[place_of[pair] for pair in pairs]] if pairs else said

    def _classified(self, features: Sequence[dict[str, list[int]]]) -> NDArray[np.float64]:
        """What a batch says, in halves where it does not fit into memory."""
        import numpy as np
        import torch

        try:
            with torch.inference_mode():
                padded = self._tokenizer.pad(list(features), return_tensors="pt").to(self._model.device)
                with passes(self._model.device.type, self._precision):
                    found = self._model(**padded).logits
                return _meant(found, self._outputs)
        except (RuntimeError, MemoryError) as error:
            pass_on_unless_memory(error)
            if len(features) == 1:
                raise OutOfMemoryError(f"there is no memory for one window of {self.name!r}") from error
        half = len(features) // 2
        return np.concatenate([self._classified(features[:half]), self._classified(features[half:])])


class RelevanceClassifier(PairClassifier):
    """Says how likely a chunk is relevant to a question (role `relevant`), or an answer speaks of it (`answers`)."""

    default_role: ClassVar[Role] = "relevant"

    def tokens_of(self, question: str, chunk: str) -> PairTokens:
        """The tokens of a pair, for what attributes its grade to them; of a long chunk those of its best window.

        Raises: ModelError for a model without a token to hide others with.
        """
        import numpy as np

        short, long = (without_special_tokens(self._tokenizer, readable(text)) for text in (question, chunk))
        parts = self._windows(short, long)
        best = int(np.argmax(self._read([(short, part) for part in parts], lambda _: None)[:, 0]))

        def judge(features: list[dict[str, list[int]]]) -> NDArray[np.float64]:
            with torch_threads(self._threads):
                said = [self._classified([features[at] for at in places]) for places in _batches(
                    range(len(features)), self.batch_size)]  # fmt: skip
            shares = np.concatenate(said)[:, 0]
            return 2 * (shares if self.calibration is None else np.asarray(self.calibration.apply(shares))) - 1

        return PairTokens(
            self.name,
            self._model,
            self._tokenizer,
            located(self._tokenizer, (short, parts[best]), self._max_tokens, self._form),
            (short, parts[best]),
            judge,
            lambda given: 2 * _shares(self._model(**given).logits, self._outputs)[:, 0].double() - 1,
        )

    def in_role(self, role: Role) -> RelevanceClassifier:
        """The same model, in memory once, in another role, with the calibration of that role."""
        other = copy(self)
        other.roles, other.calibration = frozenset({role}), self._calibrations.get(role)
        return other

    def relevant(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability in [0, 1] that the chunk of each (question, chunk) holds what answers the question, or a
        needed part of it; 0 for a chunk without text. Raises: ModelError in another role, and as `probabilities`.
        """
        return self._shares("relevant", pairs)

    def answers(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability in [0, 1] that the answer of each (question, answer) speaks of what was asked; 0 for an
        answer without text. Raises: ModelError in another role, and as `probabilities`.
        """
        return self._shares("answers", pairs)

    def _shares(self, role: Role, pairs: Sequence[Pair]) -> list[float]:
        if role not in self.roles:
            raise ModelError(
                f"model {self.name!r} was loaded for the role {', '.join(self.roles)}, not {role}; load it with "
                f"role={role!r}"
            )
        said = self.probabilities(pairs)[0]
        if self.calibration is not None:
            said = self.calibration.apply(said)
        return [float(share) if long.strip() else 0.0 for share, (_, long) in zip(said, pairs, strict=True)]


def _meant(found: Any, outputs: Outputs) -> NDArray[np.float64]:
    """The probabilities of yes and of a contradiction, from a batch's outputs."""
    meant: NDArray[np.float64] = _shares(found, outputs).double().cpu().numpy()
    return meant


def _shares(found: Any, outputs: Outputs) -> Any:
    """The same as a tensor `(n, 2)`, through which gradients flow."""
    import torch

    found = found.float()
    if outputs.support is None:
        yes = torch.sigmoid(found[:, 0]) if outputs.scale is None else _on_scale(found[:, 0], outputs.scale)
        against = torch.zeros_like(yes)
    else:
        shares = torch.softmax(found, dim=1)
        yes = shares[:, outputs.support]
        against = torch.zeros_like(yes) if outputs.contradiction is None else shares[:, outputs.contradiction]
    return torch.stack([yes, against], dim=1)


def _on_scale(scores: Any, scale: tuple[float, float]) -> Any:
    low, high = scale
    return ((scores - low) / (high - low)).clamp(0.0, 1.0)


def _batches(order: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(order), size):
        yield list(order[start : start + size])


def _window(model: Any, tokenizer: Any) -> int:
    """How many tokens the model can read: RoBERTa and its kin keep the first positions for padding."""
    places = getattr(model.config, "max_position_embeddings", None)
    layers = [layer for name, layer in model.named_modules() if name.endswith("position_embeddings")]
    padding = [getattr(layer, "padding_idx", None) for layer in layers]
    kept = max((place + 1 for place in padding if place is not None), default=0)
    return min(int(tokenizer.model_max_length), int(places) - kept if places else sys.maxsize)


def _loaded(model: str | Path) -> tuple[Any, Any]:
    """The classifier, in float32, and its tokenizer. Raises: ModelError."""
    library = load_package("transformers")

    def classifier(name: str, local: bool) -> Any:
        try:
            return library.AutoModelForSequenceClassification.from_pretrained(
                name, local_files_only=local, output_loading_info=True, trust_remote_code=False
            )
        except ValueError as error:
            if "trust_remote_code" not in str(error):
                raise
            raise ModelError(
                f"model {name!r} brings code of its own (trust_remote_code), which ragtrace does not run; give a model "
                "of an architecture that transformers has"
            ) from error

    loaded, report = load_pretrained(model, classifier)
    if report["missing_keys"]:
        raise ModelError(
            f"model {str(model)!r} has no weights for {', '.join(sorted(report['missing_keys']))}: it is no "
            "classifier of pairs; give one, or train one by `ragtrace verifier train`"
        )
    tokenizer = load_pretrained(
        model,
        lambda name, local: library.AutoTokenizer.from_pretrained(
            name, local_files_only=local, trust_remote_code=False
        ),
    )
    loaded = loaded.float()  # what is stored in half precision would be read so
    _check(str(model), loaded, tokenizer)
    return loaded, tokenizer


def _check(name: str, model: Any, tokenizer: Any) -> None:
    if not tokenizer.is_fast:
        raise ModelError(f"the tokenizer of {name!r} gives no offsets; give a model with a fast tokenizer")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.eos_token_id


def _settings(model: str | Path) -> dict[str, Any]:
    name, local = resolve(model)
    path = Path(name) / SETTINGS
    if not local or not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}; train the verifier again") from error


def _calibrations(model: str | Path, role: Role, given: str | Path | None, loaded: Any) -> dict[Role, Calibration]:
    """Those that the folder has for each role, and the given one for `role`."""
    name, local = resolve(model)
    files: dict[Role, Path] = {"entails": Path(name) / FILE}
    files |= {each: Path(name) / f"calibration-{each}.json" for each in ("relevant", "answers")}
    there = {each: path for each, path in files.items() if local and path.is_file()}
    if given is not None:
        there[role] = Path(given)
    found = {each: Calibration.load(path) for each, path in there.items()}
    for each, calibration in found.items():
        if calibration.model != weights_digest(loaded):
            raise ModelError(
                f"{str(there[each])!r} is of other weights than {name!r}; fit it again by `ragtrace verifier calibrate`"
            )
    return found


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
