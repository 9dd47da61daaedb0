"""The page of an explanation: whole, safe, small, and readable by everybody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ragtrace.explanations import Explanation, GeneratorAttribution, RetrieverAttribution, TokenWeights
from ragtrace.export._explanation_drawings import LEVELS, PALETTE, hue, opacity
from ragtrace.export.explanation_html import page
from ragtrace.types import Claim, PackRun, Query, replace
from tests.export.explained import ANSWER, QUESTION, TEXTS, explanation, left_out, record, tokens

_VOID = {"meta", "br"}
_EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class _Page(HTMLParser):
    """Elements with their attributes, texts by element, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, *without: str) -> str:
        return "".join(data for tag, data in self.texts if tag not in ("script", "style", *without))


def _data(parsed: _Page) -> Any:
    return json.loads("".join(data for tag, data in parsed.texts if tag == "script").partition('"use strict"')[0])


def test_the_whole_of_it() -> None:
    """Every section is there, with figures, units, errors and method; every element is closed."""
    parsed = _Page(page(record(), explanation()))
    text = parsed.text()

    assert parsed.open == []
    for part in (
        QUESTION,
        "The answer rests most on D",
        "Wasted retrieval: yes (probability 0.97)",
        "+0.602 ± 0.030",
        "nats per token",
        "chance",
        "Which words of the question the answer needs",
        "completeness delta +0.0011",
        "estimated by gp, 48 evaluations, seed 0; causal_lm copying-lm, revision 3f2a9c1",
        "21.4 s on cpu",
    ):
        assert part in text, part
    assert f"ragtrace show {record().request_id} tells at which rank" in text
    assert ANSWER in parsed.text("sup")
    for chunk in TEXTS.values():
        assert chunk in text


def test_long_names_are_broken() -> None:
    """An address as a chunk's id does not make the page wider than the window."""
    assert re.search(r"\.headline\b[^{}]*\{[^}]*overflow-wrap: anywhere", page(record(), explanation()))


def test_nothing_is_loaded() -> None:
    """No address, no import, no style or handler in an element; the policy forbids the rest."""
    html = page(record(), explanation())
    parsed = _Page(html)
    names = {name for _, attributes in parsed.elements for name in attributes}

    assert not names & {"src", "href", "style", "xlink:href", "srcset", "action"}
    assert not [name for name in names if name.startswith("on")]
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    assert "@import" not in html


def test_only_its_own_script_runs() -> None:
    """The policy names the hash of the script as it stands in the page."""
    html = page(record(), explanation())
    [script] = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    [policy] = re.findall(r"script-src &#x27;sha256-([^&]+)&#x27;", html)
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == policy
    assert "default-src &#x27;none&#x27;" in html


def test_no_text_becomes_markup() -> None:
    """Scripts in questions, answers, ids, titles, texts, models and reasons stay texts."""
    texts = {f"{chunk_id}{_EVIL}": f"{text} {_EVIL}" for chunk_id, text in TEXTS.items()}
    question, answer = f"{QUESTION} {_EVIL}", f"{ANSWER} {_EVIL}"
    found = explanation(texts, question, answer)
    assert found.generator is not None
    found = replace(found, skipped={_EVIL: _EVIL}, generator=replace(found.generator, model=_EVIL, method=_EVIL))
    html = page(record(texts, question, answer), found)
    parsed = _Page(html)

    assert parsed.open == []
    assert len(parsed.all("script")) == 2
    assert html.count("<script") == 2
    assert parsed.all("img") == []
    assert _EVIL in parsed.text()
    assert any("onerror" in word for word in _data(parsed)["words"])
    assert "alert" not in re.sub(r"[^<]*", "", html)


def test_the_script_gets_what_the_page_says() -> None:
    """Its values are those of each word, by document; the table without a script has the same."""
    parsed = _Page(page(record(), explanation()))
    data = _data(parsed)
    words, values = data["words"], data["values"]

    assert len(values) == len(TEXTS)
    assert {len(row) for row in values} == {len(words)}
    found = explanation().generator
    assert found is not None
    assert sum(map(sum, values)) == pytest.approx(sum(map(sum, found.values)), abs=0.2)
    numbered = [int(attributes["data-w"] or -1) for attributes in parsed.all("i") if "data-w" in attributes]
    assert numbered == list(range(len(words)))


def test_readable_without_colors_and_scripts() -> None:
    """Letters stand beside shades, drawings have labels or are repeated as figures, tables have heads and captions."""
    html = page(record(), explanation())
    parsed = _Page(html)

    assert "hours</i><sup>D</sup>" in html
    assert re.search(r">30</i>(<sup>D</sup>)?<sup class=\"o\">−[BC]</sup>", html)
    for attributes in parsed.all("svg"):
        assert attributes.get("aria-hidden") == "true" or (attributes.get("role"), bool(attributes["aria-label"])) == (
            "img",
            True,
        )
    assert len(parsed.all("caption")) == len(parsed.all("table"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in parsed.all("th"))
    assert all(attributes.get("type") == "button" for attributes in parsed.all("button"))
    assert parsed.all("html")[0]["lang"] == "en"
    assert "Order of the retriever: A, C, B, D, F, E. Order by share of the answer: D, E, C, B, A, F." in html


def _luminance(color: tuple[float, float, float]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_sentence_that_decides_on_each_claim() -> None:
    """Its state, the document and the words; nothing where no claims are given."""
    name = "travel-ie-5.0#report"
    sentence = "Send us the police report no later than 30 days after you discovered the theft."
    supports = {name: 0.93, "far": 0.6}
    supported = Claim(start=0, end=6, text=f"{sentence} <b>", support=0.93, best_chunk=name, supports=supports)
    against = Claim(start=6, end=9, text="No.", support=0.1, contradiction=0.8, best_chunk="far", reason="negated")
    parsed = _Page(page(record(), explanation(), [supported, against]))
    said = " ".join(parsed.text().split())
    assert "What the documents say of each claim2: 1 contradicted (claim 2), 1 supported." in said
    assert "".join(data for tag, data in parsed.texts if tag == "q") == sentence
    assert "CONTRADICTED" in said
    assert "by far: negated" in said
    assert "also by" in said
    assert [attributes.get("class") for attributes in parsed.all("b")].count("doubted") == 1
    assert "What the documents say of each claim" not in page(record(), explanation())


@pytest.mark.parametrize(
    ("dark", "behind", "ink"),
    [
        (False, (245, 246, 248), (22, 24, 29)),
        (True, (30, 33, 39), (236, 238, 242)),
        (True, (21, 23, 27), (236, 238, 242)),
    ],
)
def test_text_on_every_shade_can_be_read(dark: bool, behind: tuple[int, int, int], ink: tuple[int, int, int]) -> None:
    """Contrast is at least 4.5 (WCAG AA) for every document and level, in light and dark."""
    for color in PALETTE:
        for level in range(LEVELS + 1):
            part = opacity(level, dark)
            mixed = [part * own + (1 - part) * back for own, back in zip(hue(color, dark), behind, strict=True)]
            both = sorted((_luminance((mixed[0], mixed[1], mixed[2])), _luminance(ink)))
            assert (both[1] + 0.05) / (both[0] + 0.05) >= 4.5, (color, level)


def test_large_requests_stay_small() -> None:
    """30 documents of 2,000 tokens and an answer of 500 make a page below 5 MB, with every word and every weight."""
    filler = " ".join(TEXTS.values()).split()
    texts = {
        f"chunk-{number}": "Title\n" + " ".join(filler[(place * (number + 3)) % len(filler)] for place in range(1600))
        for number in range(30)
    }
    answer = " ".join(filler[(place * 7) % len(filler)] for place in range(400))
    found = explanation(texts, QUESTION, answer)
    weights = tuple(
        replace(why, document=TokenWeights(spans=why.document.spans, weights=tuple(_spread(len(why.document.spans)))))
        for why in found.retriever
    )
    assert min(len(tokens(text)) for text in texts.values()) >= 1900
    assert len(tokens(answer)) >= 500
    html = page(record(texts, QUESTION, answer), replace(found, retriever=weights))
    assert 1_000_000 < len(html.encode()) < 5_000_000


def _spread(size: int) -> list[float]:
    return [((place * 37) % 101 - 50) / 100 for place in range(size)]


def test_what_was_left_out() -> None:
    """Missing parts are named with their reasons, and no section stands empty."""
    found = Explanation(skipped={"generator": "no model was given"}, retriever=explanation().retriever)
    text = _Page(page(record(), found)).text()
    assert "not in the prompt" not in text
    assert "generator: no model was given" in text
    assert "What it used was not computed." in text
    assert "Shares of the documents" not in text
    unkept = _Page(page(record(answer=None, question=""), explanation())).text()
    assert "Its text was not kept." in unkept
    assert "The question's text was not kept" in unkept


def test_documents_outside_the_prompt() -> None:
    """A document that was retrieved and not packed says so."""
    whole = record()
    unpacked = replace(whole, stages=tuple(run for run in whole.stages if not isinstance(run, PackRun)))
    assert _Page(page(unpacked, explanation())).text().count("not in the prompt") == len(TEXTS)


def test_odd_texts_make_a_valid_file() -> None:
    """Lone surrogates and control characters are replaced, so that the file can be written and read."""
    texts = {chunk_id: f"\ud800\x00{text}" for chunk_id, text in TEXTS.items()}
    html = page(record(texts, answer=f"\udfff{ANSWER}"), explanation(texts, answer=f"\udfff{ANSWER}"))
    assert "\x00" not in html
    html.encode()


def test_whiskers_are_explained_where_there_are_some() -> None:
    """Not where the errors are unknown, nor where the shares are exact."""
    assert "whiskers and ±: one standard error" in _Page(page(record(), explanation())).text()
    closed = _Page(page(record(), left_out((0.0, 1.0, 0.4)))).text()
    assert "whiskers" not in closed
    assert "0: the answer changes least without the document, 1: most; errors are unknown" in closed
    found = explanation()
    assert found.generator is not None
    unknown = replace(found.generator, share_errors=(None,) * len(TEXTS))
    for generator, said in (
        (unknown, "the errors of these shares are unknown"),
        (replace(unknown, exact=True), "these shares are exact"),
    ):
        text = _Page(page(record(), replace(found, generator=generator))).text()
        assert said in text
        assert "whiskers" not in text


def test_the_terms_of_the_question_by_who_used_them() -> None:
    """A line above what the retriever used, one below what the answer did; the figures are parts of each side's sum."""
    question = "Is theft covered abroad?"
    spans = ((0, 2), (3, 8), (9, 16), (17, 23), (23, 24))
    words = GeneratorAttribution(players="words", query_spans=spans, shares=(0.0, 0.5, 0.1, 0.4, 0.0))
    why = RetrieverAttribution(chunk_id="c", query=TokenWeights(spans=spans, weights=(0.0, 0.4, 0.6, 0.0, 0.0)))
    asked = replace(record(), query=Query(original=question), stages=())
    html = page(asked, Explanation(query=words, retriever=(why,)))
    assert '<b class="term generator" title="only the answer used it">theft</b>' in html
    assert '<b class="term retriever" title="only the retriever used it">covered</b>' in html
    assert "abroad</b>" not in html
    text = _Page(html).text()
    assert "theft40 %50 %only the answer used it" in text
    assert "covered60 %10 %only the retriever used it" in text


def test_a_long_question_says_which_words_make_a_group() -> None:
    """The groups with their shares, and what the shades of their words are."""
    question = "Is theft covered abroad?"
    spans = ((0, 2), (3, 8), (9, 16), (17, 23))
    words = GeneratorAttribution(
        players="words", query_spans=((0, 2), (3, 23)), query_words=spans, shares=(0.0, 0.6), share_errors=(0.1, 0.1)
    )
    assert words.word_shares()[0] == spans
    assert words.word_shares()[1] == pytest.approx((0.0, 0.2, 0.2, 0.2))
    html = page(replace(record(), query=Query(original=question), stages=()), Explanation(query=words))
    text = _Page(html).text()
    assert "The question has 4 words, asked for in 2 groups." in text
    assert "divided evenly among its words" in text
    assert '<th scope="row">theft covered abroad</th>' in html


def test_a_closed_model_colors_the_parts_of_the_prompt_by_their_weight() -> None:
    """From no color at 0 to the strongest at 1, in the order of the prompt, each with its figure."""
    parts = [line for line in page(record(), left_out((0.0, 1.0, 0.5))).splitlines() if '<p class="part">' in line]
    for line, (weight, level) in zip(parts, (("0.00", "s0"), ("1.00", "s8"), ("0.50", "s4")), strict=True):
        assert f"<b>{weight}</b>" in line
        assert f'<i class="{level}">' in line
