"""Training of a verifier: a sentence encoder learns to read evidence and claim together and say entailment or not.

Reading the data (`verifier_examples`) needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from ragtrace.engines.models import (
    NumberFormat,
    best_device,
    load_package,
    load_pretrained,
    passes,
    torch_threads,
    weights_digest,
)
from ragtrace.engines.pair_classifier import SETTINGS
from ragtrace.engines.text_pairs import MARKS, encode_pairs
from ragtrace.engines.verifier_examples import Example, PairDraw, TrainingPair
from ragtrace.errors import ConfigurationError, ModelError

__all__ = ["TrainingSettings", "pieces_of", "train"]

_CHECKPOINT: Final = "checkpoint.pt"
_LABELS: Final = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """What a training run depends on besides its data and the encoder.

    Attributes:
        pairs: how many pairs are read in all; the budget.
        warmup, decay: the shares of the steps in which the learning rate rises, and falls; between them it stays.
        made: the share of them that are made from others.
        words: of evidence that a pair has at most.
        dropout: of hidden states; the attention has none.
        spans: how much the loss over the claims' word pieces counts, where it is known which have no support.
        precision: of the passes; bf16 is several times faster where the device has it (a GPU; avx512_bf16, AMX).
        threads: of torch on the CPU; the weights depend on it in their last digits.
    """

    pairs: int = 40_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    head_learning_rate: float = 1e-3
    warmup: float = 0.06
    decay: float = 0.4
    weight_decay: float = 0.01
    made: float = 0.4
    words: int = 80
    dropout: float = 0.1
    spans: float = 1.0
    max_tokens: int = 192
    seed: int = 0
    precision: NumberFormat = "float32"
    threads: int = 2

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.batch_size < 1 or self.threads < 1:
            raise ConfigurationError.of(
                "pairs, batch size, threads", (self.pairs, self.batch_size, self.threads), "1 or more"
            )
        if not 0 <= self.made < 1:
            raise ConfigurationError.of("share of made pairs", self.made, "a number from 0 to below 1")

    @property
    def steps(self) -> int:
        """Batches in all."""
        return -(-self.pairs // self.batch_size)


def train(
    encoder: str | Path,
    examples: Sequence[Example],
    folder: Path,
    settings: TrainingSettings,
    *,
    checkpoint_every: int = 100,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Train on `examples` and save model, tokenizer and settings in `folder`; `on_step(step, loss)` after each batch.

    A run that was killed goes on from its last checkpoint in `folder`, and gives the weights that it would have given;
    with another number of pairs, it goes on at that budget's learning rates.

    Raises: ConfigurationError where another run's checkpoint stands there; ModelError where the encoder cannot be
    loaded; MissingExtraError without the models extra.
    """
    import torch

    draw = PairDraw(examples, seed=settings.seed, made=settings.made, words=settings.words)
    folder.mkdir(parents=True, exist_ok=True)
    with _seeded(settings.seed), torch_threads(settings.threads):
        model, tokenizer = _begun(encoder, settings)
        marker = torch.nn.Linear(model.config.hidden_size, 1)  # of the training alone: it is not saved
        fingerprint = _fingerprint(model, examples, settings)
        model.to(best_device()).train()
        marker.to(model.device)
        optimizer = _optimizer(model, marker, settings)
        first = _resumed(folder, fingerprint, model, marker, optimizer)
        for step in range(first, settings.steps):
            torch.manual_seed(_seed_of(settings.seed, step))  # a resumed run drops what it would have dropped
            loss = _loss(model, marker, tokenizer, draw.batch(step, settings.batch_size, settings.pairs), settings)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([each for group in optimizer.param_groups for each in group["params"]], 1.0)
            _set_rates(optimizer, step, settings)
            optimizer.step()
            if on_step is not None:
                on_step(step + 1, float(loss.detach()))
            if (step + 1) % checkpoint_every == 0:
                _keep(folder, fingerprint, step + 1, model, marker, optimizer)
    _save(folder, model.to("cpu"), tokenizer)
    _describe(folder, examples, settings)
    (folder / _CHECKPOINT).unlink(missing_ok=True)


def _begun(encoder: str | Path, settings: TrainingSettings) -> tuple[Any, Any]:
    """The encoder with a new head and token types for shared words; its word vectors stay as they are."""
    library = load_package("transformers")
    names = dict(enumerate(_LABELS))
    found = load_pretrained(
        encoder, lambda name, local: library.AutoModel.from_pretrained(name, local_files_only=local)
    )
    tokenizer = load_pretrained(
        encoder, lambda name, local: library.AutoTokenizer.from_pretrained(name, local_files_only=local)
    )
    config = found.config
    if config.model_type != "bert":
        raise ConfigurationError.of("encoder", f"{encoder} ({config.model_type})", "one of the BERT architecture")
    config.type_vocab_size, config.num_labels = MARKS, len(_LABELS)
    config.hidden_dropout_prob = settings.dropout
    config.attention_probs_dropout_prob = 0.0  # takes a third of the time on a CPU
    config.id2label, config.label2id = names, {label: place for place, label in names.items()}
    model = library.AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")  # faster here
    weights = found.state_dict()
    kinds = weights["embeddings.token_type_embeddings.weight"]
    weights["embeddings.token_type_embeddings.weight"] = kinds[[0, -1, -1, 0]].clone()
    model.bert.load_state_dict(weights, strict=True)
    for table in (model.bert.embeddings.word_embeddings, model.bert.embeddings.position_embeddings):
        table.weight.requires_grad_(False)
    tokenizer.model_max_length = settings.max_tokens
    return model, tokenizer


def _loss(model: Any, marker: Any, tokenizer: Any, pairs: Sequence[TrainingPair], settings: TrainingSettings) -> Any:
    """−ln of the probability of what the label allows: `unsupported` allows neutral and contradiction.

    Added to it: that of which word pieces of the claims have no support, where this is known.
    """
    import torch

    texts = [(pair.claim, pair.evidence) for pair in pairs]
    features = encode_pairs(tokenizer, texts, settings.max_tokens, marked=True)
    padded = tokenizer.pad(features, return_tensors="pt").to(model.device)
    allowed = torch.tensor([[_allows(pair.label, each) for each in _LABELS] for pair in pairs], device=model.device)
    with passes(model.device.type, settings.precision):
        found = model(**padded, output_hidden_states=True)
    shares = torch.log_softmax(found.logits.float(), dim=1).masked_fill(~allowed, float("-inf"))
    loss = -torch.logsumexp(shares, dim=1).mean()
    rows, places, wrong = pieces_of(tokenizer, pairs, [len(each["input_ids"]) for each in features])
    if not rows or not settings.spans:
        return loss
    said = marker(found.hidden_states[-1][rows, places].float()).squeeze(1)
    truth = torch.tensor(wrong, dtype=torch.float32, device=model.device)
    return loss + settings.spans * torch.nn.functional.binary_cross_entropy_with_logits(said, truth)


def pieces_of(
    tokenizer: Any, pairs: Sequence[TrainingPair], lengths: Sequence[int]
) -> tuple[list[int], list[int], list[bool]]:
    """Row and place of the word pieces of claims about which it is known whether they have support; and which lack it.

    A claim's pieces are the last ones of its row but the mark of the end.
    """
    rows, places, wrong = [], [], []
    for row, (pair, length) in enumerate(zip(pairs, lengths, strict=True)):
        if pair.wrong is None:
            continue
        claim = tokenizer(pair.claim, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = claim["offset_mapping"]
        if len(offsets) + 1 >= length:
            continue  # a claim that was shortened
        for place, (start, end) in enumerate(offsets, start=length - 1 - len(offsets)):
            rows.append(row)
            places.append(place)
            wrong.append(any(start < last and end > first for first, last in pair.wrong))
    return rows, places, wrong


def _seed_of(seed: int, step: int) -> int:
    """Of one step's dropout."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {step}".encode(), digest_size=7).digest(), "big")


def _allows(label: str, output: str) -> bool:
    return label == output or (label == "unsupported" and output != "entailment")


def _optimizer(model: Any, marker: Any, settings: TrainingSettings) -> Any:
    import torch

    head = [*model.classifier.parameters(), *marker.parameters()]
    own = {id(each) for each in head}
    rest = [each for each in model.parameters() if each.requires_grad and id(each) not in own]
    groups = [
        {"params": rest, "highest": settings.learning_rate},
        {"params": head, "highest": settings.head_learning_rate},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _set_rates(optimizer: Any, step: int, settings: TrainingSettings) -> None:
    """A straight rise, the highest, and a straight fall to nothing: a function of the step alone."""
    rise = (step + 1) / max(1, round(settings.warmup * settings.steps))
    fall = (settings.steps - step) / max(1, round(settings.decay * settings.steps))
    share = min(1.0, rise, fall)
    for group in optimizer.param_groups:
        group["lr"] = group["highest"] * share


def _keep(folder: Path, fingerprint: str, step: int, model: Any, marker: Any, optimizer: Any) -> None:
    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    state = {
        "fingerprint": fingerprint,
        "step": step,
        "model": {name: value for name, value in model.state_dict().items() if name in trained},
        "marker": marker.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    _save_checkpoint(folder, state)


def _resumed(folder: Path, fingerprint: str, model: Any, marker: Any, optimizer: Any) -> int:
    """The step to go on with."""
    state = _load_checkpoint(folder, fingerprint)
    if state is None:
        return 0
    model.load_state_dict(state["model"], strict=False)
    marker.load_state_dict(state["marker"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _save(folder: Path, model: Any, tokenizer: Any) -> None:
    """As `save_pretrained` does, but the same bytes for the same weights, and without a progress bar of its own."""
    files = load_package("safetensors.torch", package="safetensors")
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    files.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _fingerprint(model: Any, examples: Sequence[Example], settings: TrainingSettings) -> str:
    digest = hashlib.blake2b(digest_size=8)
    digest.update(json.dumps({**asdict(settings), "pairs": None}, sort_keys=True).encode())
    digest.update(weights_digest(model).encode())
    for each in examples:
        digest.update(repr(replace(each, lexical=None)).encode())  # of what words alone say, nothing is learned
    return digest.hexdigest()


def _describe(folder: Path, examples: Sequence[Example], settings: TrainingSettings) -> None:
    """What `EntailmentVerifier.load` reads, and what the weights were made from."""
    said = {
        "max_tokens": settings.max_tokens,
        "marks_shared_words": True,
        "best_sentences": settings.words,
        "training": asdict(settings),
        "data": sorted({each.dataset for each in examples}),
    }
    (folder / SETTINGS).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers by `seed`; those of the process go on afterwards as if nothing had been drawn."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` so that a kill at any moment leaves the last one whole."""
    import torch

    beside = folder / f"{_CHECKPOINT}.new"
    with beside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / _CHECKPOINT)


def _load_checkpoint(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """The last state of this run; None where it has not begun.

    Raises: ConfigurationError where another run stands there (other data, settings or encoder), ModelError where the
    file cannot be read.
    """
    import torch

    path = folder / _CHECKPOINT
    if not path.is_file():
        return None
    try:
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has a way to fail for each way in which a file can be broken
        raise ModelError(f"{str(path)!r} cannot be read ({type(error).__name__}); remove it to begin again") from error
    if not isinstance(state, dict) or "fingerprint" not in state:
        raise ModelError(f"{str(path)!r} is no checkpoint of a training; remove it to begin again")
    if state["fingerprint"] != fingerprint:
        raise ConfigurationError(
            f"{str(path)!r} belongs to a training with other data, settings or another encoder; give another folder, "
            "or remove it to begin again"
        )
    return state
