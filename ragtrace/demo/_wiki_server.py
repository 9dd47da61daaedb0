"""An encyclopedia of given pages that speaks MediaWiki's API, on the loopback address: pages, redirects, disambiguation
pages and search, as far as `MediaWiki` asks for them.

Search is that of CirrusSearch in small: words must all stand in a page, or one of those with OR between them; those
with the rarest words come first, the title's counted twice.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote

from ragtrace.http_server import HttpServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["WikiApplication", "wiki_server"]

_WORD: Final = re.compile(r"\w+")
_AT_ONCE: Final = 8
_SILENCE: Final = 10.0


class WikiApplication:
    """The encyclopedia as a WSGI application.

    Args:
        pages: title to text.
        redirects: title to the title of a page.
        disambiguations: title to the titles that it may mean.
    """

    def __init__(
        self,
        pages: Mapping[str, str],
        redirects: Mapping[str, str] | None = None,
        disambiguations: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._redirects = redirects or {}
        self._meanings = disambiguations or {}
        self._pages = {**pages, **{title: f"{title} may refer to:" for title in self._meanings}}
        self._titles = {title: frozenset(_words(title)) for title in self._pages}
        self._words = {title: frozenset(_words(text)) | self._titles[title] for title, text in self._pages.items()}
        self._counts = Counter(word for words in self._words.values() for word in words)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one call."""
        asked = {name: values[-1] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        if asked.get("list") == "search":
            said: dict[str, Any] = {"query": {"search": self._search(asked)}}
        elif "titles" in asked:
            said = {"query": self._page(asked["titles"])}
        else:
            said = {"error": {"code": "badvalue", "info": 'Unrecognized value for parameter "action".'}}
        body = json.dumps(said).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _page(self, asked: str) -> dict[str, Any]:
        title = self._redirects.get(asked, asked)
        redirects = [{"from": asked, "to": title}] if title != asked else []
        if title not in self._pages:
            return {"redirects": redirects, "pages": [{"ns": 0, "title": title, "missing": True}]}
        page: dict[str, Any] = {
            "ns": 0,
            "title": title,
            "fullurl": f"http://127.0.0.1/wiki/{quote(title.replace(' ', '_'))}",
            "extract": self._pages[title],
        }
        if title in self._meanings:
            page["pageprops"] = {"disambiguation": ""}
            page["links"] = [{"ns": 0, "title": each} for each in self._meanings[title]]
        return {"redirects": redirects, "pages": [page]}

    def _search(self, asked: Mapping[str, str]) -> list[dict[str, Any]]:
        wanted = asked.get("srsearch", "")
        words, either = set(_words(wanted.replace(" OR ", " "))), " OR " in wanted
        fits = {title: words & found for title, found in self._words.items()}
        hits = [title for title, found in fits.items() if found and (either or found == words)]
        best = sorted(hits, key=lambda title: -self._rarity(fits[title]) - self._rarity(words & self._titles[title]))
        return [{"ns": 0, "title": title} for title in best[: int(asked.get("srlimit", "10"))]]

    def _rarity(self, words: Iterable[str]) -> float:
        return sum(math.log(1 + len(self._pages) / self._counts[word]) for word in words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@contextmanager
def wiki_server(application: WSGIApplication) -> Iterator[str]:
    """The address of the application's API while the block runs."""
    server = HttpServer("127.0.0.1", 0, at_once=_AT_ONCE, silence=_SILENCE)
    server.start(application, "ragtrace-demo-wiki")
    try:
        yield f"http://127.0.0.1:{server.port}/w/api.php"
    finally:
        server.close()
