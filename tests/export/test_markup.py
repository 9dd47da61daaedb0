"""HTML that cannot be broken by what stands in it."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from ragtrace.export.charts import Html, join, tag


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
