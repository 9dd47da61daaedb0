"""The look-up in an encyclopedia, against a server that speaks MediaWiki's API, with its troubles."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest

from ragtrace.demo._mediawiki import MediaWiki, WikiApplication, wiki_server
from ragtrace.errors import ConfigurationError
from ragtrace.http_client import NoAnswer
from ragtrace.http_server import plain

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

PAGES = {
    "Ann Hoe": "Ann Hoe was a judge.",
    "Boxer (film)": "Boxer is a film.",
    "Boxer (dog)": "A boxer is a dog.",
    "Old Lamp": "Old Lamp is a play about a lamp.",
    "Quill (feather)": "A quill is a feather.",
    "Quill (story by Ek)": "Quill is written by Ek.",
}
MEANINGS = {"Quill": ["Quill (feather)", "Quill (story by Ek)"], "Empty": []}


class Troubled:
    """The encyclopedia behind troubles: each call meets the next one, until there are none. calls: what was asked."""

    def __init__(self) -> None:
        self.wiki = WikiApplication(PAGES, {"Anna Hoe": "Ann Hoe"}, MEANINGS)
        self.troubles: list[tuple[str, dict[str, str]] | float] = []
        self.calls: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer, or make trouble."""
        asked = parse_qs(environ["QUERY_STRING"])
        self.calls.append((asked.get("titles") or [f"search {asked['srsearch'][0]}"])[0])
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, tuple):
            return plain(start_response, trouble[0], "no", *trouble[1].items())
        if trouble is not None:
            time.sleep(trouble)
        return self.wiki(environ, start_response)


@pytest.fixture
def troubled() -> Troubled:
    """The encyclopedia."""
    return Troubled()


@pytest.fixture
def url(troubled: Troubled) -> Iterator[str]:
    """Its address."""
    with wiki_server(troubled) as address:
        yield address


def titles(url: str, question: str) -> list[str]:
    """Of the pages that the look-up gives."""
    return [page.title for page in MediaWiki(url).pages(question)]


def test_the_page_of_the_entity_comes_first(url: str, troubled: Troubled) -> None:
    """With its text and address, after one call."""
    page = next(MediaWiki(url).pages("Who is the father of Ann Hoe?"))
    assert (page.title, page.text) == ("Ann Hoe", "Ann Hoe was a judge.")
    assert page.url == "http://127.0.0.1/wiki/Ann_Hoe"
    assert troubled.calls == ["Ann Hoe"]


def test_a_redirect_of_the_encyclopedia_is_followed_once(url: str) -> None:
    """The page has its own title, and comes once although the search finds it again."""
    assert titles(url, "Who is the father of Anna Hoe?") == ["Ann Hoe"]


def test_a_title_may_say_what_the_entity_is(url: str, troubled: Troubled) -> None:
    """A question for the director takes it for a film."""
    assert next(MediaWiki(url).pages("Who was the director of Boxer?")).title == "Boxer (film)"
    assert troubled.calls == ["Boxer", "Boxer (film)"]


def test_the_search_comes_third(url: str, troubled: Troubled) -> None:
    """With the entity, where neither title is there."""
    assert titles(url, "What sport does Lamp Old play?") == ["Old Lamp"]
    assert troubled.calls[3] == "search Lamp Old"


def test_a_question_asks_for_one_page_at_a_time(url: str, troubled: Troubled) -> None:
    """A bar parts titles in the API; an entity with one is only searched for."""
    assert titles(url, "Who is the father of Ann Hoe|Old Lamp?") == []
    assert troubled.calls == ["search Ann Hoe|Old Lamp"]


def test_a_disambiguation_page_is_resolved_last(url: str, troubled: Troubled) -> None:
    """It is no page itself; what it points to comes by what it shares with the question."""
    found = titles(url, "Who wrote Quill?")
    assert "Quill" not in found
    assert set(found) == {"Quill (feather)", "Quill (story by Ek)"}
    assert titles(url, "Who is the father of Empty?") == []


def test_a_question_of_another_form_is_searched_by_its_words(url: str, troubled: Troubled) -> None:
    """Any of them, without those that mean nothing."""
    assert titles(url, "Tell me of the play about a lamp")[0] == "Old Lamp"
    assert troubled.calls[0] == "search Tell OR play OR lamp"


def test_a_server_that_asks_to_wait_is_left_alone_so_long(url: str, troubled: Troubled) -> None:
    """429 and 503 with Retry-After; without it the pauses double."""
    troubled.troubles = [("429 Too Many Requests", {"Retry-After": "3"}), ("503 Service Unavailable", {})]
    pauses: list[float] = []
    page = next(MediaWiki(url, sleep=pauses.append).pages("Who is the father of Ann Hoe?"))
    assert page.title == "Ann Hoe"
    assert pauses == [3.0, 1.0]


def test_a_server_that_asks_for_too_long_is_given_up(url: str, troubled: Troubled) -> None:
    """At once, with what it asked for."""
    troubled.troubles = [("429 Too Many Requests", {"Retry-After": "3600"})]
    pauses: list[float] = []
    with pytest.raises(NoAnswer, match="left alone for 3600 s"):
        next(MediaWiki(url, sleep=pauses.append).pages("Who is the father of Ann Hoe?"))
    assert pauses == []
    assert len(troubled.calls) == 1


def test_a_silent_server_is_asked_again(url: str, troubled: Troubled) -> None:
    """As often as attempts say; then it is given up."""
    troubled.troubles = [1.0]
    patient = MediaWiki(url, seconds=0.2, sleep=lambda _: None)
    assert next(patient.pages("Who is the father of Ann Hoe?")).title == "Ann Hoe"
    troubled.troubles = [1.0, 1.0]
    hasty = MediaWiki(url, seconds=0.2, attempts=2, sleep=lambda _: None)
    with pytest.raises(NoAnswer):
        next(hasty.pages("Who is the father of Ann Hoe?"))
    assert len(troubled.calls) == 4


def test_a_redirect_of_the_server_is_followed(url: str, troubled: Troubled) -> None:
    """As from http to https."""
    troubled.troubles = [("301 Moved Permanently", {"Location": f"{url}?titles=Ann+Hoe"})]
    assert next(MediaWiki(url).pages("Who is the father of Anna Hoe?")).title == "Ann Hoe"


@pytest.mark.parametrize("status", ["403 Forbidden", "200 OK"])
def test_what_is_no_answer_of_an_api_is_said(url: str, troubled: Troubled, status: str) -> None:
    """With its status, and not asked again."""
    troubled.troubles = [(status, {})]
    with pytest.raises(NoAnswer, match=f"answered {status[:3]}: no"):
        next(MediaWiki(url).pages("Who is the father of Ann Hoe?"))
    assert len(troubled.calls) == 1


@pytest.mark.parametrize(
    "said",
    [
        "[]",
        "null",
        "no",
        '{"error": null}',
        '{"query": null}',
        '{"query": []}',
        '{"query": {"pages": null}}',
        '{"query": {"pages": {"1": {"title": "Ann Hoe"}}}}',
        '{"query": {"pages": [null]}}',
        '{"query": {"pages": [{"extract": "text"}]}}',
        '{"query": {"pages": [{"title": null}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "extract": null}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "extract": 7}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "fullurl": 7}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "pageprops": []}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "pageprops": {"disambiguation": ""}, "links": null}]}}',
        '{"query": {"pages": [{"title": "Ann Hoe", "pageprops": {"disambiguation": ""}, "links": [{}]}]}}',
        '{"query": {"search": null}}',
        '{"query": {"search": [{"ns": 0}]}}',
        '{"query": {"search": [{"title": 7}]}}',
        "[" * 100_000,
    ],
)
def test_json_of_another_form_is_no_answer(said: str) -> None:
    """As of an older version of the API, or of a server that speaks something else."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return plain(start_response, "200 OK", said)

    with wiki_server(application) as url, pytest.raises(NoAnswer, match="answered 200"):
        next(MediaWiki(url).pages("Who is the father of Ann Hoe?"))


@pytest.mark.parametrize("address", ["", "wiki.example", "ftp://wiki.example/api.php", "https:///api.php"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ConfigurationError, match="the address of a MediaWiki API"):
        MediaWiki(address)
