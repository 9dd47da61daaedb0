"""A page of HTML that needs nothing else, no network, no fonts, and that what stands in it cannot break.

Every text is escaped, unless it is `Html` already; the page's policy lets nothing be loaded, and no other script run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from ragtrace.errors import MissingExtraError
from ragtrace.installation import EXTRA
from ragtrace.safe_text import dumps, visible

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Html", "asset", "embedded", "join", "standalone", "tag", "templates"]

_VOID: Final = frozenset({"br", "meta"})


class Html(str):
    """A piece of a page."""

    __slots__ = ()

    def __html__(self) -> str:
        """As templates ask for it: they escape what lacks this."""
        return str(self)


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


def asset(package: str, *names: str) -> str:
    """A file of the folder `page/` of a package."""
    return resources.files(package).joinpath("page", *names).read_text("utf-8")


def embedded(name: str, value: Any) -> Html:
    """JSON for a script of the page, in an element with this id; nothing is escaped there: no "<" may stand in it."""
    return tag("script", Html(dumps(value, indent=None).replace("<", "\\u003c")), type="application/json", id=name)


def standalone(title: str, style: str, *body: Html, scripts: Sequence[str] = ()) -> str:
    """The whole file. scripts: the only ones that may run, in this order, behind the body."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("title", title),
        tag("style", Html(style)),
    )
    last = [tag("script", Html(script)) for script in scripts]
    html = tag("html", tag("head", head), tag("body", *body, *last), lang="en")
    return f"<!DOCTYPE html>\n{html}\n"


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is loaded, and no script runs but the page's own."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"


def templates(*packages: str) -> Environment:
    """The templates of packages, each from its folder `templates/`, that escape all they show: also control characters
    and characters that turn a line round are shown as what they are.

    Raises: MissingExtraError without jinja2.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtraError("jinja2", EXTRA) from None

    folders = [str(resources.files(package).joinpath("templates")) for package in packages]
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
    )
