"""HTML and SVG that cannot be broken by what stands in it: every text is escaped, unless it is `Html` already; and HTML
files that need nothing else: no network, no fonts, and no script to be read.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from typing import Final

__all__ = ["Html", "asset", "join", "standalone", "tag"]

_VOID: Final = frozenset({"br", "meta"})


class Html(str):
    """A piece of a page."""

    __slots__ = ()


def join(*parts: str) -> Html:
    """Parts in a row; those that are not `Html` are escaped."""
    return Html("".join([part if isinstance(part, Html) else escape(part) for part in parts]))


def tag(name: str, /, *parts: str, **attributes: str | float | bool | None) -> Html:
    """An element. A trailing `_` of an attribute's name is dropped, others become `-`; None and False leave it out."""
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in given.items())}>"
    return Html(opened) if name in _VOID else Html(f"{opened}{join(*parts)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def asset(package: str, name: str) -> str:
    """A file of the folder `page/` of a package."""
    return resources.files(package).joinpath("page", name).read_text("utf-8")


def standalone(title: str, style: str, *body: Html, script: str = "") -> str:
    """The whole file. style: what the page has beyond the style of all pages. script: the only one that may run."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("title", title),
        tag("style", Html(asset("ragtrace.export", "base.css") + style)),
    )
    last = tag("script", Html(script)) if script else ""
    html = tag("html", tag("head", head), tag("body", *body, last), lang="en")
    return f"<!DOCTYPE html>\n{html}\n"


def _policy(script: str) -> str:
    """Nothing is loaded, and no script runs but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"
