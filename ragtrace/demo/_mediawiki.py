"""The look-up of an encyclopedia that speaks MediaWiki's API, as Wikipedia does: from a question to its pages, in four
steps; and an encyclopedia of given pages that speaks it on the loopback address.

The entity of a question of a known form (`ragtrace.grading.question_entity`) is tried as a title, then with what the
question takes it for, as in "Boxer (film)"; then the search is asked; then what the disambiguation pages point to that
stood in the way. A question of another form is searched by its words.

The server's search is that of CirrusSearch in small: words must all stand in a page, or one of those with OR between
them; those with the rarest words come first, the title's counted twice.

Source: the reproduction of Corrective RAG, whose web search is such a look-up.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from ragtrace.coverage.text import content_stems, located_words
from ragtrace.errors import ConfigurationError
from ragtrace.grading import question_entity, question_type
from ragtrace.http_client import Answer, HttpClient, NoAnswer
from ragtrace.http_server import HttpServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["MediaWiki", "WikiApplication", "WikiPage", "wiki_server"]

_AGAIN: Final = frozenset((429, 500, 502, 503, 504))
_PAUSE: Final = 0.5  # seconds before the second attempt where the server asks for none; doubled before the third
_FOUND: Final = 5  # titles of a search
_MEANINGS: Final = 3  # pages that are read of those that a disambiguation page points to
_LINKS: Final = 100  # of a disambiguation page
_BETWEEN_TITLES: Final = "|"
_AGENT: Final = "ragtrace-demo (https://pypi.org/project/ragtrace)"  # Wikipedia refuses clients without a name
_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {  # what titles add to a name, by what is asked of it
    "author": ("novel", "book", "play"),
    "capital": ("country", "state"),
    "capital of": ("city",),
    "composer": ("film", "musical", "opera"),
    "country": ("city", "village"),
    "director": ("film",),
    "genre": ("album", "film", "band", "novel"),
    "producer": ("film", "album"),
    "screenwriter": ("film",),
    "sport": ("athlete", "footballer"),
}


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A page's title, address, and its text without markup. meanings: the titles that a disambiguation page points
    to; its text says nothing of any of them."""

    title: str
    url: str
    text: str
    meanings: tuple[str, ...] = ()


class _Title(msgspec.Struct, frozen=True):
    """A hit of the search, or a link."""

    title: str


class _Page(msgspec.Struct, frozen=True):
    """A page as the API gives it."""

    title: str
    fullurl: str = ""
    extract: str = ""
    missing: bool = False
    invalid: bool = False
    pageprops: dict[str, Any] = {}
    links: tuple[_Title, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """What a query found; a call asks for one of the two."""

    pages: tuple[_Page, ...] = ()
    search: tuple[_Title, ...] = ()


class _Said(msgspec.Struct, frozen=True):
    """An answer of the API in format version 2."""

    query: _Found = _Found()
    error: Any = msgspec.UNSET


class MediaWiki:
    """An encyclopedia by the address of its API, such as `https://en.wikipedia.org/w/api.php`; for many threads.

    Args:
        url: of the API. Redirects are followed on the same host, not to another one, nor from https to http.
        seconds: that the server may be silent for.
        attempts: at one call, where the server is silent, is overloaded or asks to wait (429 and 503).
        longest_pause: seconds; a server that asks in Retry-After to be left alone for longer is not asked again.
        sleep: waits for a number of seconds.

    Raises: ConfigurationError for what is no address; MissingExtraError.
    """

    def __init__(
        self,
        url: str,
        *,
        seconds: float = 5.0,
        attempts: int = 3,
        longest_pause: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError.of("url", url, "the address of a MediaWiki API, as https://HOST/w/api.php")
        self._http = HttpClient(parts, headers={"User-Agent": _AGENT}, seconds=seconds, is_redirected=True)
        self._attempts = attempts
        self._longest_pause = longest_pause
        self._sleep = sleep

    def pages(self, question: str) -> Iterator[WikiPage]:
        """Pages that may answer the question, each once, in the order of the steps; a step is taken when its first
        page is wanted. Raises: NoAnswer, where the server gives none that can be used."""
        entity = question_entity(question)
        seen: set[str] = set()
        doubtful: list[WikiPage] = []
        for title in self._titles(entity, question):
            page = self._page(title)
            if page is None or page.title in seen:
                continue
            seen.add(page.title)
            if page.meanings:
                doubtful.append(page)
            else:
                yield page
        for title in _meant([title for page in doubtful for title in page.meanings], question):
            page = self._page(title) if title not in seen else None
            if page is not None and page.title not in seen and not page.meanings:
                seen.add(page.title)
                yield page

    def _titles(self, entity: str | None, question: str) -> Iterator[str]:
        """The first three steps: the entity, the entity with what it is taken for, what the search finds."""
        if entity is not None:
            yield entity
            for suffix in _SUFFIXES.get(question_type(question) or "", ()):
                yield f"{entity} ({suffix})"
        wanted = _any_word(question) if entity is None else entity
        found = self._ask(action="query", list="search", srsearch=wanted, srlimit=_FOUND)
        yield from [each.title for each in found.search]

    def _page(self, title: str) -> WikiPage | None:
        if _BETWEEN_TITLES in title:  # no title has one; the API would give several pages
            return None
        found = self._ask(
            action="query",
            prop="extracts|pageprops|info|links",
            titles=title,
            redirects=1,
            explaintext=1,
            inprop="url",
            ppprop="disambiguation",
            plnamespace=0,
            pllimit=_LINKS,
        )
        page = next(iter(found.pages), None)
        if page is None or page.missing or page.invalid:
            return None
        is_ambiguous = "disambiguation" in page.pageprops
        meanings = tuple(link.title for link in page.links) if is_ambiguous else ()
        if is_ambiguous and not meanings:
            return None
        return WikiPage(page.title, page.fullurl, page.extract, meanings)

    def _ask(self, **asked: str | int) -> _Found:
        """What stands under `query` in the answer. Raises: NoAnswer."""
        url = f"{self._http.address}?{urlencode({**asked, 'format': 'json', 'formatversion': 2})}"
        answer = self._answer(url)
        try:
            said = msgspec.json.decode(answer.body, type=_Said)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # no JSON, no text, or not of these types
            said = None
        if answer.status != 200 or said is None or said.error is not msgspec.UNSET:
            raise NoAnswer(f"{self._http.address} answered {answer.status}: {answer.said}")
        return said.query

    def _answer(self, url: str) -> Answer:
        for attempt in range(1, self._attempts + 1):
            pause = _PAUSE * 2.0 ** (attempt - 1)
            try:
                answer = self._http.request("GET", url)
            except NoAnswer:
                if attempt == self._attempts:
                    raise
            else:
                if answer.status not in _AGAIN or attempt == self._attempts:
                    return answer
                pause = pause if answer.retry_after is None else answer.retry_after
                if pause > self._longest_pause:
                    raise NoAnswer(f"{self._http.address} asks to be left alone for {pause:.0f} s")
            self._sleep(pause)
        raise ConfigurationError.of("attempts", self._attempts, "at least 1")


def _any_word(question: str) -> str:
    """A search for pages that hold some of the question's words; the server's own wants all of them in a page."""
    words = [question[start:end] for _, start, end in located_words(question)]
    return " OR ".join(word for word in words if content_stems(word)) or question


def _meant(titles: list[str], question: str) -> list[str]:
    """Those that fit the question best, by the words that they share, and by what it takes its entity for."""
    asked = content_stems(question)
    suffixes = _SUFFIXES.get(question_type(question) or "", ())

    def fit(title: str) -> int:
        return len(asked & content_stems(title)) + any(f"({suffix})" in title for suffix in suffixes)

    return sorted(titles, key=lambda title: -fit(title))[:_MEANINGS]


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
