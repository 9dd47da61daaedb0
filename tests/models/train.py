"""Trains `copier/`, the small causal language model of the tests, from a fixed seed: `make test-models`.

A Llama of half a million parameters that copies the code which the right document states. It is trained on several
questions per prompt, on ever longer lists of documents, on duplicates and on questions without an answer; only the
answers count. Its skill on requests that it has not seen is printed at the end, and the run fails when that is poor.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.models.copying import WORDS, make, prompt_of

FOLDER: Final = Path(__file__).parent / "copier"
SEED: Final = 20261121
BATCH: Final = 32
PEAK: Final = 3e-3  # learning rate
LENGTH: Final = 1024  # positions
IGNORED: Final = -100
SKILL: Final = 0.98  # share of unseen requests answered right


def tokenizer() -> PreTrainedTokenizerFast:
    """Words, numbers in brackets and line breaks are the tokens."""
    words = ["<unk>", "<pad>", "<s>", "</s>", "\n", *(f"[{number}]" for number in range(1, 33)), *WORDS]
    found = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\n"), "isolated"), pre_tokenizers.Split(Regex(r" +"), "removed")]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=found, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def model(vocabulary: int) -> LlamaForCausalLM:
    """The untrained model."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=LENGTH,
            tie_word_embeddings=True,
            bos_token_id=2,
            eos_token_id=3,
            pad_token_id=1,
        )
    )


def batches(steps: int, draw: random.Random) -> Iterator[tuple[int, list[list[tuple[str, bool]]]]]:
    """Each step's prompts, as texts with whether they count; the lists of documents grow with the steps."""
    for step in range(steps):
        most = 2 + min(10, 14 * step // steps)
        yield step, [_lesson(draw, draw.randint(1, most)) for _ in range(BATCH)]


def _lesson(draw: random.Random, count: int) -> list[tuple[str, bool]]:
    """Documents, and questions on several of them: the same documents asked about again and again teach more."""
    duplicates = draw.choice((1, 1, 1, 2, 3)) if count > 2 else 1
    first = make(draw, count, duplicates=min(duplicates, count), is_known=draw.random() > 0.1)
    prompt, start = prompt_of(first.documents, first.question), "\nquestion :"
    parts = [(prompt, False), (f" {first.answer}", True)]
    places = draw.sample(range(count), min(count, 4))
    for place in places:
        words = first.documents[place].split()
        stated = " ".join(words[: words.index(".") + 1])
        parts += [(f"{start} what is {' '.join(words[:4])} ?\nanswer :", False), (f" {stated}", True)]
    return parts


def _tensors(
    lessons: list[list[tuple[str, bool]]], words: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = []
    for lesson in lessons:
        ids, labels = [words.bos_token_id], [IGNORED]
        for text, counts in lesson:
            part = words(text, add_special_tokens=False)["input_ids"]
            ids += part
            labels += part if counts else [IGNORED] * len(part)
        rows.append((ids, labels))
    longest = max(len(ids) for ids, _ in rows)
    given = torch.tensor([ids + [words.pad_token_id] * (longest - len(ids)) for ids, _ in rows])
    wanted = torch.tensor([labels + [IGNORED] * (longest - len(labels)) for _, labels in rows])
    return given, wanted, (given != words.pad_token_id).long()


def skill(trained: LlamaForCausalLM, words: PreTrainedTokenizerFast, count: int = 200) -> float:
    """The share of requests with 10 documents whose whole answer is the most likely one, token by token."""
    draw = random.Random(SEED + 1)
    examples = [make(draw, 10, duplicates=1 + number % 2, is_known=number % 10 > 0) for number in range(count)]
    right = 0
    for start in range(0, count, BATCH):
        some = examples[start : start + BATCH]
        lessons = [[(prompt_of(one.documents, one.question), False), (f" {one.answer}", True)] for one in some]
        given, wanted, mask = _tensors(lessons, words)
        with torch.inference_mode():
            best = trained(input_ids=given, attention_mask=mask).logits[:, :-1].argmax(-1)
        fits = (best == wanted[:, 1:]) | (wanted[:, 1:] == IGNORED)
        right += int(fits.all(-1).sum())
    return right / count


def main() -> None:
    """Train, save, and say how good it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.manual_seed(SEED)
    words = tokenizer()
    student = model(len(words))
    optimizer = torch.optim.AdamW(student.parameters(), lr=PEAK, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=given.steps, pct_start=0.1)
    started = time.monotonic()
    for step, lessons in batches(given.steps, random.Random(SEED)):
        ids, labels, mask = _tensors(lessons, words)
        loss = student(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {time.monotonic() - started:.0f} s", flush=True)
    reached = skill(student.train(False), words)
    print(f"{reached:.1%} of unseen requests answered right after {time.monotonic() - started:.0f} s")
    if reached < SKILL:
        raise SystemExit(f"that is less than {SKILL:.0%}: train for more steps")
    student.save_pretrained(given.folder)
    words.save_pretrained(given.folder)


if __name__ == "__main__":
    main()
