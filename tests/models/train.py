"""Trains `copier/`, the small causal language model of the tests, from a fixed seed: `make test-models`.

A Llama of a third of a million parameters that copies the code which the right document states. It is trained on
several questions per prompt, on duplicates, mentions and questions without an answer; only the answers count. It begins
with two documents and gets a further one whenever it has mastered those. Its
skill on requests that it has not seen is printed at the end, and the run fails when that is poor.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from pathlib import Path
from typing import Final

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.models.copying import WORDS, make, prompt_of

FOLDER: Final = Path(__file__).parent / "copier"
SEED: Final = 20261121
BATCH: Final = 32
RATE: Final = 1e-3
WARM: Final = 50  # steps
COOL: Final = 1200
MASTERED: Final = 0.05  # smoothed loss
FEWEST, MOST = 2, 12  # documents
NAME, WRITTEN = 40, 64  # parts of an embedding that tell tokens apart, and where the token before is written down
SHARP: Final = 9.0  # of queries and keys that begin by looking at the token before
THETA: Final = 1e7  # of the rotation: most of it is too slow to disturb a match across the prompt
LENGTH: Final = 1024  # positions
IGNORED: Final = -100
SKILL: Final = 0.95  # share of unseen requests answered right


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
    """The untrained model. It begins with an induction head, which to find by itself would take hours."""
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            rope_parameters={"rope_type": "default", "rope_theta": THETA},
            max_position_embeddings=LENGTH,
            tie_word_embeddings=True,
            initializer_range=0.06,
            bos_token_id=2,
            eos_token_id=3,
            pad_token_id=1,
        )
    )
    with torch.no_grad():
        _look_back(made)
        _look_up(made)
    return made


def _look_back(made: LlamaForCausalLM) -> None:
    """The first layer's first head attends one position back, and writes down which token stands there.

    Its queries are constant, turned by one step of the rotation; a part of each embedding that is the same for all
    tokens carries the constant.
    """
    attention = made.model.layers[0].self_attn
    half = attention.head_dim // 2
    angles = THETA ** (-torch.arange(half) / half)
    table = made.model.embed_tokens.weight
    table[:, 0] = 1.0
    seen = 1.0 / table.square().mean(-1).sqrt().mean()  # the constant, once it is normalized
    for weight in (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight):
        weight[: 2 * half] = 0.0
    attention.q_proj.weight[:half, 0] = SHARP / seen * angles.cos()
    attention.q_proj.weight[half : 2 * half, 0] = -SHARP / seen * angles.sin()
    attention.k_proj.weight[:half, 0] = SHARP / seen
    attention.o_proj.weight[:, : 2 * half] = 0.0
    for place in range(NAME):
        attention.v_proj.weight[place, 1 + place] = 1.0
        attention.o_proj.weight[WRITTEN + place, place] = 0.2


def _look_up(made: LlamaForCausalLM) -> None:
    """The second layer's first head attends where the token before is the present one, and copies what stands there."""
    attention = made.model.layers[1].self_attn
    size = attention.head_dim
    slow = [place for place in range(size) if place % (size // 2) >= size // 2 - NAME // 2]  # hardly rotated
    for weight in (attention.q_proj.weight, attention.k_proj.weight):
        weight[:size] = 0.0
    for place, row in enumerate(slow):
        attention.q_proj.weight[row, 1 + place] = 2.0
        attention.k_proj.weight[row, WRITTEN + place] = 2.0
    basis = torch.linalg.qr(torch.randn(made.config.hidden_size, size)).Q
    attention.v_proj.weight[:size] = basis.T
    attention.o_proj.weight[:, :size] = basis


def _lesson(draw: random.Random, count: int) -> list[tuple[str, bool]]:
    """Documents, and questions on several of them: the same documents asked about again and again teach more."""
    duplicates = min(count, draw.choice((1, 1, 1, 2, 3)))
    first = make(draw, count, duplicates=duplicates, mentions=draw.randrange(3), is_known=draw.random() > 0.1)
    parts = [(prompt_of(first.documents, first.question), False), (f" {first.answer}", True)]
    stated = [document for document in first.documents if document.startswith("the code of")]
    for document in draw.sample(stated, min(len(stated), 4)):
        words = document.split()
        fact = " ".join(words[: words.index(".") + 1])
        parts += [(f"\nquestion : what is {' '.join(words[:4])} ?\nanswer :", False), (f" {fact}", True)]
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
    examples = [
        make(draw, 10, duplicates=1 + number % 2, mentions=number % 3, is_known=number % 10 > 0)
        for number in range(count)
    ]
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


def learn(student: LlamaForCausalLM, words: PreTrainedTokenizerFast, limit: int) -> None:
    """Train until the longest lists are mastered, and then with a falling rate; at most `limit` steps."""
    draw, started = random.Random(SEED), time.monotonic()
    optimizer = torch.optim.AdamW(student.parameters(), lr=RATE, weight_decay=0.01, betas=(0.9, 0.98))
    most, smoothed, left = FEWEST, math.inf, None
    for step in range(limit):
        if left is None and (most > MOST or step >= limit - COOL):
            left = COOL
        elif left == 0:
            return
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM) * (1.0 if left is None else left / COOL)
        lessons = [_lesson(draw, draw.randint(FEWEST, min(most, MOST))) for _ in range(BATCH)]
        ids, labels, mask = _tensors(lessons, words)
        loss = student(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        smoothed = loss.item() if step == 0 else 0.9 * smoothed + 0.1 * loss.item()
        if left is not None:
            left -= 1
        elif smoothed < MASTERED:
            most, smoothed = most + 1, 4 * MASTERED
        if step % 100 == 0:
            print(
                f"step {step}: {most} documents, loss {loss.item():.3f}, {time.monotonic() - started:.0f} s", flush=True
            )


def main() -> None:
    """Train, save, and say how good it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=6000, help="at most")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    torch.manual_seed(SEED)
    words = tokenizer()
    student = model(len(words))
    learn(student, words, given.steps)
    reached = skill(student.train(False), words)
    print(f"{reached:.1%} of unseen requests answered right")
    if reached < SKILL:
        raise SystemExit(f"that is less than {SKILL:.0%}: train for more steps")
    student.save_pretrained(given.folder)
    words.save_pretrained(given.folder)


if __name__ == "__main__":
    main()
