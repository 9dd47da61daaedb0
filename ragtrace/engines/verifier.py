"""Layer 2: any sequence classifier that reads claim and evidence, as calibrated support and contradiction."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.coverage.verifier import gather
from ragtrace.engines.calibration import FILE, Calibration
from ragtrace.engines.claim_pairs import encode_pairs, windows
from ragtrace.engines.devices import (
    OutOfMemoryError,
    Precision,
    best_device,
    pass_on_unless_memory,
    passes,
    weights_digest,
)
from ragtrace.engines.labels import Outputs, read_outputs
from ragtrace.engines.loading import device_of, load_package, load_pretrained, resolve, torch_threads
from ragtrace.engines.tokens import readable
from ragtrace.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair, Verdict

__all__ = ["SETTINGS", "EntailmentVerifier"]

SETTINGS: Final = "verifier.json"
"""What a trained verifier's folder says of its own reading: `max_tokens`, `marks_shared_words`, `best_sentences`."""
BATCH: Final = 16
_LONGEST: Final = 512


class EntailmentVerifier:
    """A classifier of (claim, evidence) pairs, with the calibration of its probabilities where there is one.

    Attributes:
        name: what to call it; stored with every claim that it judges.
        calibration: None where the probabilities are the model's own.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        labels: Sequence[str] | None = None,
        max_tokens: int | None = None,
        marked: bool = False,
        best_sentences: int | None = None,
        calibration: Calibration | None = None,
        precision: Precision = "float32",
        batch_size: int = BATCH,
        threads: int | None = 1,
    ) -> None:
        if batch_size < 1:
            raise ConfigurationError.of("batch size", batch_size, "1 or more")
        self.name = name
        self.calibration = calibration
        self.batch_size = batch_size
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._outputs = read_outputs(name, model.config, labels)
        self._max_tokens = min(max_tokens or _LONGEST, _window(model, tokenizer))
        self._marked = marked
        self._best_sentences = best_sentences
        self._precision = precision
        self._threads = threads
        self._digest = ""

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        labels: Sequence[str] | None = None,
        calibration: str | Path | None = None,
        calibrated: bool = True,
        device: str | None = None,
        precision: Precision = "float32",
        max_tokens: int | None = None,
        batch_size: int = BATCH,
        threads: int | None = 1,
    ) -> EntailmentVerifier:
        """Load a sequence classifier from a folder, or by its Hugging Face name.

        labels: what its outputs mean, in their order, where its config does not say. calibration: a file; by default
        `calibration.json` of the folder, if it is there. calibrated: False for the model's own probabilities. device:
        as torch names them; by default a GPU, if there is one. precision: bf16 is faster where the device has it.
        max_tokens: of evidence and claim together. threads: of torch on the CPU; None leaves them alone.

        Raises: ModelError when it cannot be loaded, its outputs cannot be told, or the calibration is another model's;
        MissingExtraError without the models extra.
        """
        library = load_package("transformers")
        loaded, report = load_pretrained(
            model,
            lambda name, local: library.AutoModelForSequenceClassification.from_pretrained(
                name, local_files_only=local, output_loading_info=True
            ),
        )
        if report["missing_keys"]:
            raise ModelError(
                f"model {str(model)!r} has no weights for {', '.join(sorted(report['missing_keys']))}: it is no "
                "classifier of pairs; give one, or train one by `ragtrace verifier train`"
            )
        tokenizer = load_pretrained(
            model, lambda name, local: library.AutoTokenizer.from_pretrained(name, local_files_only=local)
        )
        loaded = loaded.float()  # what is stored in half precision would be read so
        _check(str(model), loaded, tokenizer)
        settings = _settings(model)
        return cls(
            Path(model).name,
            loaded.to(device or best_device()),
            tokenizer,
            labels=labels,
            max_tokens=max_tokens or settings.get("max_tokens"),
            marked=bool(settings.get("marks_shared_words", False)),
            best_sentences=settings.get("best_sentences"),
            precision=precision,
            calibration=_calibration(model, calibration, loaded) if calibrated else None,
            batch_size=batch_size,
            threads=threads,
        )

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like."""
        return device_of(self._model)

    @property
    def lexical_weight(self) -> float:
        """How much of what words alone say of a claim is added to what the model says; by the calibration."""
        return self.calibration.lexical_weight if self.calibration is not None else 0.0

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        self._digest = self._digest or weights_digest(self._model)
        return self._digest

    def verify(self, pairs: Sequence[Pair], *, on_progress: Callable[[int], None] | None = None) -> list[Verdict]:
        """(support, contradiction) of each (claim, evidence), calibrated where there is a calibration.

        The support is the largest over the evidence's windows, the contradiction the largest that this leaves.
        on_progress: gets the number of windows just read.

        Raises: OutOfMemoryError when there is no memory for a single window, ModelError for scores that are no numbers.
        """
        import numpy as np

        support, contradiction = self.probabilities(pairs, on_progress=on_progress)
        if self.calibration is not None:
            support = self.calibration.apply(support)
        against = np.minimum(contradiction, 1.0 - support)
        return list(zip(support.tolist(), against.tolist(), strict=True))

    def probabilities(
        self, pairs: Sequence[Pair], *, on_progress: Callable[[int], None] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Support and contradiction of each pair as the model says them: the largest over the evidence's windows.

        Raises: as `verify`.
        """
        import numpy as np

        owners: list[int] = []
        read: list[Pair] = []
        for number, pair in enumerate(pairs):
            claim, evidence = map(readable, pair)
            for window in self._windows(claim, evidence):
                owners.append(number)
                read.append((claim, window))
        support, contradiction = np.zeros(len(pairs)), np.zeros(len(pairs))
        said = self._read(read, on_progress or (lambda _: None))
        np.maximum.at(support, owners, said[:, 0])
        np.maximum.at(contradiction, owners, said[:, 1])
        return support, contradiction

    def _windows(self, claim: str, evidence: str) -> list[str]:
        """All windows; of a verifier that was trained so, the sentences that are nearest to the claim."""
        if self._best_sentences is not None:
            return [gather(claim, [evidence], limit=self._best_sentences)]
        return windows(self._tokenizer, claim, evidence, self._max_tokens)

    def _read(self, pairs: Sequence[Pair], on_progress: Callable[[int], None]) -> NDArray[np.float64]:
        """What the model says of pairs that fit, each distinct one read once, those of one length together."""
        import numpy as np

        distinct = list(dict.fromkeys(pairs))
        features = encode_pairs(self._tokenizer, distinct, self._max_tokens, marked=self._marked) if distinct else []
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
        """Support and contradiction of a batch, in halves where it does not fit into memory."""
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


def _meant(found: Any, outputs: Outputs) -> NDArray[np.float64]:
    """Support and contradiction from a batch's outputs."""
    import torch

    found = found.float()
    if outputs.support is None:
        support = torch.sigmoid(found[:, 0])
        against = torch.zeros_like(support)
    else:
        shares = torch.softmax(found, dim=1)
        support = shares[:, outputs.support]
        against = torch.zeros_like(support) if outputs.contradiction is None else shares[:, outputs.contradiction]
    meant: NDArray[np.float64] = torch.stack([support, against], dim=1).double().cpu().numpy()
    return meant


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


def _calibration(model: str | Path, given: str | Path | None, loaded: Any) -> Calibration | None:
    name, local = resolve(model)
    path = Path(given) if given is not None else Path(name) / FILE
    if given is None and not (local and path.is_file()):
        return None
    found = Calibration.load(path)
    if found.model != weights_digest(loaded):
        raise ModelError(
            f"{str(path)!r} is of other weights than {name!r}; fit it again by `ragtrace verifier calibrate`"
        )
    return found
