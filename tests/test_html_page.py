"""HTML that cannot be broken by what stands in it."""

from __future__ import annotations

import base64
import hashlib
import json
from html.parser import HTMLParser

from hypothesis import given, strategies as st

from ragtrace.html_page import Html, embedded, join, standalone, tag


@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_texts_stay_texts(text: str) -> None:
    """Whatever a text and an attribute hold, an HTML reader gets back just that."""
    found: list[tuple[str, object]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            found.append(("text", data))

    reader = Reader()
    reader.feed(tag("p", text, title=text))
    reader.close()
    assert found[0] == ("p", [("title", text)])
    assert "".join(str(data) for kind, data in found[1:] if kind == "text") == text
    assert all(kind == "text" for kind, _ in found[1:])


def test_elements() -> None:
    """Attributes may be named like keywords or be left out; pieces of a page are not escaped again."""
    assert tag("i", "a<b", class_="x", data_row=2, hidden=True, title=None, open=False) == (
        '<i class="x" data-row="2" hidden>a&lt;b</i>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert join(Html("<b>"), "<b>") == "<b>&lt;b&gt;"
    assert tag("p", tag("b", "&")) == "<p><b>&amp;</b></p>"


def test_only_the_pages_own_scripts_run() -> None:
    """The policy names each of them by its hash, and none where there is none; nothing else is loaded."""
    first, second = (base64.b64encode(hashlib.sha256(text).digest()).decode() for text in (b"one()", b"two()"))
    html = standalone("a & b", "p {}", tag("p", "x"), scripts=["one()", "two()"])
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{first}' 'sha256-{second}'; base-uri"
    assert policy in html.replace("&#x27;", "'")
    assert html.index("<p>x</p>") < html.index("<script>one()</script>") < html.index("<script>two()</script>")
    assert "<title>a &amp; b</title>" in html
    assert "script-src 'none'" in standalone("t", "").replace("&#x27;", "'")


def test_embedded_values_end_no_script() -> None:
    """A text that would close the element is JSON still, and none of HTML's."""
    element = embedded("data", {"text": "</script><b>"})
    inside = element.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert "<" not in inside
    assert json.loads(inside) == {"text": "</script><b>"}
