"""An explanation on a terminal, in color and without."""

from __future__ import annotations

import io
import re
from typing import Literal

import pytest
from rich.console import Console

from ragtrace.explanations import Explanation, RetrieverAttribution
from ragtrace.export.explanation_text import render
from ragtrace.types import Candidate, RequestRecord, RetrieveRun, replace
from tests.export.explained import TEXTS, explanation, left_out, record

_STYLE = re.compile(r"\x1b\[[\d;]*m")


def _shown(
    of: RequestRecord | None = None, found: Explanation | None = None, width: int = 120, color: bool = False
) -> str:
    output = io.StringIO()
    console = Console(
        file=output,
        width=width,
        markup=False,
        highlight=False,
        color_system="truecolor" if color else None,
        force_terminal=color,
    )
    console.print(render(of or record(), found or explanation()))
    return output.getvalue()


def test_all_that_was_found() -> None:
    """Question, headline, flags, shares with errors, WARG with raw, floor and chance, method and cost."""
    text = " ".join(_shown().split())
    for part in (
        "How soon must a theft abroad be reported",
        "The answer rests most on D, travel-ie-5.0#report",
        "Wasted retrieval: yes (probability 0.97)",
        "nats per token",
        "1.26 weighted attribution-relevance gap, adjusted: 0 is the retriever's order, 1 a random one (p = 0.9; "
        "raw 0.807, floor 0.531, chance 0.751)",
        "late +0.310 ± 0.020",
        "estimated by gp, 48 evaluations",
        "21.4 s on cpu",
    ):
        assert part in text, part
    assert re.search(r"D travel-ie-5.0#report 4 → 1 \+0\.602 ± 0\.030 33 % █+├", text)


def test_without_color_letters_stand_for_shades() -> None:
    """Words that rest on a document are quoted, with its letter; what speaks against them is marked."""
    text = _shown()
    assert "24 hours»ᵈ" in text
    assert "20 percent»ᵉ" in text.replace("\n", " ")
    assert "⁻ᶜ" in text.partition("before a letter")[0].replace("; ⁻ ", "")
    assert "«−2020»" in text
    assert "\x1b" not in text


def test_with_color_words_are_shaded() -> None:
    """In color the words have backgrounds instead, and the letters stay."""
    text = _shown(color=True)
    plain = _STYLE.sub("", text)
    assert "«" not in text
    assert "darkest from" in plain
    assert "hoursᵈ" in plain
    assert "48;2;204;121,167".replace(",", ";") in text  # D at its strongest


@pytest.mark.parametrize(("system", "no_color"), [("truecolor", True), ("standard", False)])
def test_terminals_without_enough_colors(system: Literal["truecolor", "standard"], no_color: bool) -> None:
    """Where the user wants no color (NO_COLOR), or there are 16 only, quotes and letters are shown."""
    output = io.StringIO()
    console = Console(file=output, width=120, color_system=system, force_terminal=True, no_color=no_color)
    console.print(render(record(), explanation()))
    assert "24 hours»ᵈ" in _STYLE.sub("", output.getvalue())
    assert "darkest" not in output.getvalue()
    assert "in «quotes», with its document's letter" in output.getvalue()


def test_shades_fit_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal that says that it is light, faint shades are light."""
    monkeypatch.delenv("COLORFGBG", raising=False)
    dark = _shown(color=True)
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert _shown(color=True) != dark
    assert _STYLE.sub("", _shown(color=True)) == _STYLE.sub("", dark)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    """From 80 columns on, whatever the length of ids."""
    texts = {f"{chunk_id}-with-a-rather-long-name-behind-it": text for chunk_id, text in TEXTS.items()}
    text = _shown(record(texts), explanation(texts), width)
    assert max(map(len, text.splitlines())) <= width
    assert "±" in text


def test_texts_cannot_command_the_terminal() -> None:
    """Escape sequences in chunks, answers and questions do not reach it."""
    texts = {f"{chunk_id}\x1b[0m": f"\x1b[2J{text}" for chunk_id, text in TEXTS.items()}
    question, answer = "What\x1b]0;x\x07 is it?", "\x1b[31mIt is 30 days."
    text = _shown(record(texts, question, answer), explanation(texts, question, answer))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_where_to_look_next() -> None:
    """Below the flags, where the answer does not follow the ranking."""
    assert f"next       ragtrace show {record().request_id} tells at which rank" in _shown()


def test_parts_that_are_missing() -> None:
    """What was not computed is named with its reason; what was not kept is said to be so."""
    found = Explanation(skipped={"generator": "no model was given"}, retriever=explanation().retriever)
    text = _shown(found=found)
    assert "generator: no model was given" in " ".join(text.split())
    assert "This explains the retrieval alone: what the answer used was not computed (--generator MODEL" in text
    unkept = _shown(record(answer=None), replace(explanation(), retriever=()))
    assert "its text was not kept" in unkept


def test_tokens_without_places_shade_nothing() -> None:
    """A model that does not say where its tokens stand still gives shares."""
    found = explanation()
    assert found.generator is not None
    unplaced = replace(found, generator=replace(found.generator, answer_spans=()))
    text = _shown(found=unplaced)
    assert "does not say where its tokens stand" in text
    assert "24 hours»" not in text.partition("document ")[0]
    assert "+0.602 ± 0.030" in text


def test_many_documents_are_cut_to_the_notable() -> None:
    """The terminal shows why the first documents of both rankings were retrieved; the page shows all."""
    many = {f"{chunk_id}-{number}": text for number in range(5) for chunk_id, text in TEXTS.items()}
    text = _shown(record(many), explanation(many))
    shown = len(re.findall(r"score \d", text))
    assert 0 < shown < len(many)
    few = _shown()
    assert len(re.findall(r"score \d", few)) == len(TEXTS)


def test_what_was_found_first_is_notable() -> None:
    """Even if reranking or packing lost it: its rank, and that it is not in the prompt, are told."""
    packed = {f"d{place}": f"text {place}" for place in range(12)}
    found, kept = explanation(packed), record(packed)
    first = RetrieverAttribution(chunk_id="lost", score=0.9)
    retrieved = RetrieveRun(candidates=(Candidate(chunk_id="lost", rank=1, text="the evidence"),))
    kept = replace(kept, stages=(retrieved, *kept.stages[1:]))
    text = _shown(kept, replace(found, retriever=(*found.retriever, first)))
    assert "lost  score 0.900, found at rank 1, not in the prompt" in text


def test_long_documents_are_cut_to_their_densest_part() -> None:
    """The excerpt of a long text holds the words that count."""
    text = "Nothing of note stands here. " * 60 + "Report a theft abroad soon. " + "Nor does it here. " * 60
    shown = _shown(record({"long": text}), explanation({"long": text}))
    assert "… " in shown
    assert "«theft abroad»" in shown or "«theft» «abroad»" in shown
    assert len(shown) < 4000


def test_shares_are_said_to_be_what_they_are() -> None:
    """Errors and percentages are explained where there are some, and the weights of a closed model as such."""
    text = " ".join(_shown().split())
    assert "share: what the document adds to the answer, in nats per token, ± one standard error (├┤), and its" in text
    found = explanation()
    assert found.generator is not None
    exact = replace(found.generator, share_errors=(0.0,) * len(TEXTS), exact=True)
    assert "one standard error" not in " ".join(_shown(found=replace(found, generator=exact)).split())
    text = " ".join(_shown(found=left_out((0.0, 1.0, 0.4))).split())
    assert "share: how much the answer changes without the document, from 0 (the least of all) to 1" in text
    assert "standard error" not in text
    assert "Shapley" not in text


def test_an_answer_that_uses_nothing_has_no_bars() -> None:
    """Rounding is no share of anything."""
    found = explanation()
    assert found.generator is not None
    noise = tuple(1e-17 * (-1) ** place for place in range(len(TEXTS)))
    generator = replace(found.generator, shares=noise, share_errors=(None,) * len(noise), empty=-1.0, full=-1.0)
    text = _shown(found=replace(found, generator=generator))
    assert "█" not in text
    assert "0.000000" not in text.partition("which words")[0]
    assert "No document makes this answer more probable" in text
