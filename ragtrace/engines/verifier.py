"""Verifiers of claims: a sequence classifier that reads claim and evidence (layer 2), and embeddings (layer 1).

A classifier reads windows over long evidence, with marks of words that claim and evidence share, and gives calibrated
support and contradiction. Embeddings say how close a claim is to the nearest sentence, or two, of its evidence.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragtrace.coverage.text import sentences, stem
from ragtrace.coverage.verifier import gather
from ragtrace.engines.calibration import FILE, Calibration
from ragtrace.engines.encoder import Encoder
from ragtrace.engines.labels import Outputs, read_outputs
from ragtrace.engines.models import (
    OutOfMemoryError,
    Precision,
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
from ragtrace.engines.tokens import cut, readable
from ragtrace.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.coverage.verifier import Pair, Verdict

__all__ = ["MARKS", "SETTINGS", "EmbeddingVerifier", "EntailmentVerifier", "encode_pairs", "windows"]

MARKS: Final = 4
"""Token types of a verifier that sees shared words: evidence, claim, a claim's word that the evidence lacks, evidence's
word that the claim has."""
_EVIDENCE, _CLAIM, _MISSING, _SHARED = range(MARKS)
_CLAIM_SHARE: Final = 2  # a claim has at most one half of the tokens


def windows(tokenizer: Any, claim: str, evidence: str, max_tokens: int) -> list[str]:
    """Pieces of `evidence` that fit beside the claim: whole sentences, each window beginning in the middle of the last.

    A sentence that does not fit is cut. Evidence that fits as a whole is one window.
    """
    extra = tokenizer.num_special_tokens_to_add(pair=True)
    room = max_tokens - extra - min(_length(tokenizer, claim), _longest_claim(tokenizer, max_tokens))
    if _length(tokenizer, evidence) <= room:
        return [evidence]
    return list(_windows(tokenizer, evidence, room))


def _windows(tokenizer: Any, evidence: str, room: int) -> Iterator[str]:
    pieces = [piece for each in sentences(evidence) for piece in cut(tokenizer, each.text, room)] or [evidence]
    lengths = [_length(tokenizer, piece) for piece in pieces]
    start = 0
    while True:
        end, used = start, 0
        while end < len(pieces) and (end == start or used + lengths[end] <= room):
            used += lengths[end]
            end += 1
        yield " ".join(pieces[start:end])
        if end >= len(pieces):
            return
        start = max(start + 1, (start + end + 1) // 2)


def _length(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def encode_pairs(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], max_tokens: int, *, marked: bool
) -> list[dict[str, list[int]]]:
    """The features of each (claim, evidence), unpadded: the evidence first, as premise, then the claim."""
    longest = _longest_claim(tokenizer, max_tokens)
    claims = [_shortened(tokenizer, claim, longest) for claim, _ in pairs]
    encoded = tokenizer(
        [evidence for _, evidence in pairs],
        claims,
        truncation="only_first",
        max_length=max_tokens,
        return_offsets_mapping=marked,
        verbose=False,
    )
    features = []
    for number, (claim, (_, evidence)) in enumerate(zip(claims, pairs, strict=True)):
        found = {name: list(encoded[name][number]) for name in encoded if name != "offset_mapping"}
        if marked:
            found["token_type_ids"] = _overlap_marks(
                (evidence, claim),
                encoded.sequence_ids(number),
                encoded.word_ids(number),
                encoded["offset_mapping"][number],
            )
        features.append(found)
    return features


def _overlap_marks(
    texts: tuple[str, str],
    sides: Sequence[int | None],
    word_ids: Sequence[int | None],
    offsets: Sequence[tuple[int, int]],
) -> list[int]:
    """The token type of each token of a pair: on which side it stands, and whether its word's stem is on the other."""
    keys = list(zip(sides, word_ids, strict=True))
    stems: list[str] = []
    for (side, word), run in groupby(range(len(keys)), key=lambda place: keys[place]):
        places = list(run)
        text = texts[side or 0]
        said = text[offsets[places[0]][0] : offsets[places[-1]][1]] if word is not None else ""
        stems += [_stem(said)] * len(places)
    said_by = [{each for each, side in zip(stems, sides, strict=True) if side == which and each} for which in (0, 1)]
    return [_mark(side, word, said_by) for side, word in zip(sides, stems, strict=True)]


def _mark(side: int | None, word: str, said_by: Sequence[set[str]]) -> int:
    if side == 1:
        return _MISSING if word and word not in said_by[0] else _CLAIM
    return _SHARED if side == 0 and word and word in said_by[1] else _EVIDENCE


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    """Nothing for punctuation, which is shared by all."""
    return stem(word) if any(map(str.isalnum, word)) else ""


def _longest_claim(tokenizer: Any, max_tokens: int) -> int:
    """How many tokens of a claim are read."""
    return (max_tokens - int(tokenizer.num_special_tokens_to_add(pair=True))) // _CLAIM_SHARE


def _shortened(tokenizer: Any, claim: str, limit: int) -> str:
    if len(claim) <= limit:  # a token has at least one character
        return claim
    offsets = tokenizer(claim, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    return claim if len(offsets) <= limit else claim[: offsets[limit - 1][1]]


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


COSINE_SLOPE: Final = 0.88
"""Of the log odds of support on the cosine; fitted with `BIAS` and the weight of words on the development half of
RAGTruth QA with all-MiniLM-L6-v2, supported and unsupported claims alike frequent."""
COSINE_BIAS: Final = -0.56
NEAREST_WORDS: Final = 2000  # of a long evidence, those nearest to the claim by words, are read
EMBEDDING_BATCH: Final = 32


class EmbeddingVerifier:
    """Says how likely evidence supports a claim by the cosine of their embeddings; of contradictions it says nothing.

    Attributes:
        name, digest: of the encoder; stored with the claims.
        lexical_weight: how much of the log odds that words alone give is added.
        calibration: None, since the probability is that of words and cosine together.
    """

    layer: Final = "embeddings"
    lexical_weight: Final = 0.89
    calibration: Final = None

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = f"embeddings of {encoder.name}"

    @classmethod
    def load(cls, model: str | Path) -> EmbeddingVerifier:
        """Load a sentence-transformers model from a folder, or by its Hugging Face name.

        Raises: ModelError when it cannot be loaded, MissingExtraError without the models extra.
        """
        return cls(Encoder.load(model))

    @property
    def digest(self) -> str:
        """What tells these weights from others."""
        return self._encoder.revision or ""

    def verify(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """(support, 0) of each (claim, evidence); every distinct text of the call is encoded once, all in one batch."""
        pairs = [(readable(claim), readable(evidence)) for claim, evidence in pairs]
        windows = [self._windows(claim, evidence) for claim, evidence in pairs]
        texts = dict.fromkeys([claim for claim, _ in pairs] + [text for each in windows for text in each])
        vectors = dict(zip(texts, self._encoder.encode(list(texts), batch_size=EMBEDDING_BATCH), strict=True))
        nearest = [
            max((float(vectors[claim] @ vectors[text]) for text in each), default=0.0)
            for (claim, _), each in zip(pairs, windows, strict=True)
        ]
        return [(round(1 / (1 + math.exp(-(COSINE_SLOPE * cosine + COSINE_BIAS))), 4), 0.0) for cosine in nearest]

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each (question, answer), in [-1, 1]; a long text is read as far as the encoder reads."""
        texts = dict.fromkeys(readable(text) for pair in pairs for text in pair)
        vectors = dict(zip(texts, self._encoder.encode(list(texts), batch_size=EMBEDDING_BATCH), strict=True))
        return [round(float(vectors[readable(one)] @ vectors[readable(other)]), 4) for one, other in pairs]

    def _windows(self, claim: str, evidence: str) -> list[str]:
        """The sentences of the evidence, in pieces where the encoder would cut them, each alone and with the next."""
        read = sentences(gather(claim, [evidence], limit=NEAREST_WORDS))
        found = [piece for sentence in read for piece in self._encoder.pieces(sentence.text)]
        return found + [f"{one} {other}" for one, other in pairwise(found)]
