"""The pages as a browser gets them: what each route shows, refuses and writes, and that no recorded text becomes more
than text."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from bench.traffic import MINUTE, SERVICE as TRAFFIC, Break, Traffic, store_traffic
from ragtrace.analyze import analyze_record, worker
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import read_questions
from ragtrace.registry.wording import FIXES
from ragtrace.store import Drawing, Drawn, Finished, Store
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    replace,
)
from ragtrace.web import Everybody, People, Proxy, WebSettings, make_app
from ragtrace.web._on_call import Piece, linked
from tests.web.gated import COMPARED, RUN
from tests.web.stored import ALTERED, EVIL, EXPLAINED, HOSTILE, LOST, OTHER, SECRET, SERVICE, store_of

TOKENS = {
    "all": "all-tenants-content-token",
    "acme": "acme-content-token-0001",
    "numbers": "acme-numbers-token-0001",
    "all-numbers": "all-numbers-token-00001",
    "judge": "acme-judge-token-000001",
    "rival": "rival-content-token-001",
}
FILE = f"""
ann {TOKENS["all"]} tenant=* role=content
bob {TOKENS["acme"]} tenant=acme role=content
eve {TOKENS["numbers"]} tenant=acme role=numbers
moe {TOKENS["all-numbers"]} tenant=* role=numbers
joe {TOKENS["judge"]} tenant=acme role=judge  # labels
rob {TOKENS["rival"]} tenant=rival role=content
"""
PAGES = (
    "/",
    f"/?service={quote(SERVICE)}",
    "/requests",
    f"/requests?service={quote(SERVICE)}",
    *(f"/requests/{quote(each, safe='')}" for each in (ALTERED, LOST, HOSTILE)),
    f"/triage?service={quote(SERVICE)}",
    f"/explanations/{quote(LOST, safe='')}",
    "/runbooks/",
    "/runbooks/retrieval",
    "/gate",
    f"/gate/{RUN}",
    COMPARED,
)
WRITES = (f"/labels/{quote(ALTERED, safe='')}", "/alerts", f"/explanations/{quote(ALTERED, safe='')}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of all pages."""
    with Store.open(store_of(tmp_path_factory.mktemp("pages"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of people."""
    file = tmp_path_factory.mktemp("tokens") / "people"
    file.write_text(FILE, encoding="utf-8")
    return file


def client(store: Store, tokens: Path | None = None, who: str | None = None, **more: Any) -> TestClient:
    """A browser of somebody; without tokens one of this machine."""
    access = Everybody(may_judge=True, name="me") if tokens is None else People(tokens, may_judge=True)
    headers = {} if who is None else {"Authorization": f"Bearer {TOKENS[who]}"}
    app = make_app(store, access, is_local=tokens is None, **more)
    return TestClient(app, base_url="http://localhost", headers=headers, follow_redirects=False)


class Elements(HTMLParser):
    """What a browser would take for an element, an attribute that runs, or an address."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.running: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.names.add(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.running.append(name)
            if name in ("href", "src", "action"):
                self.addresses.append(value or "")


def test_the_altered_sentence_is_shown_beside_the_claim(store: Store) -> None:
    """What the answer says and what the chunk says stand side by side, with the value that differs marked."""
    page = client(store).get(f"/requests/{ALTERED}").text
    assert "Claim 1 is contradicted by the prompt" in page
    assert re.search(r'<mark class="differs">[^<]*91,500', page)
    assert re.search(r'<mark class="differs">[^<]*19,500', page)
    assert 'href="#evidence-1"' in page
    assert 'id="evidence-1"' in page


def test_lost_evidence_is_shown_where_it_was_lost(store: Store) -> None:
    """The needed chunk has a star, its words, and the stage that lost it; the picture draws it where it should be."""
    page = client(store).get(f"/requests/{LOST}").text
    assert "Needed, but lost in reranking: rank 1 before, 3 after" in page
    assert "needed, but sunk in reranking" in page
    assert "EUR 19,500" in page
    assert "40 of 40 tokens" in page


def test_an_explanation_is_a_page_without_inline_scripts(store: Store) -> None:
    """Shares, rankings and shaded words are shown, and no script stands in the page but data."""
    page = client(store).get(f"/requests/{EXPLAINED}").text
    for part in (
        "What the answer rests on",
        "Shares of the documents",
        "who used them",
        "weighted attribution-relevance",
    ):
        assert part in page
    assert re.findall(r"<script(?![^>]*(?:src=\"/static/|type=\"application/json\"))", page) == []


@pytest.mark.parametrize("path", [*PAGES, f"/requests/{EXPLAINED}", "/signin", "/nowhere"])
def test_no_recorded_text_becomes_an_element(store: Store, path: str) -> None:
    """Scripts, handlers, terminal codes and turned lines of any field are shown as text; all addresses are our own."""
    answer = client(store).get(path)
    found = Elements(answer.text)
    assert "img" not in found.names
    assert found.running == []
    assert [one for one in found.addresses if not re.match(r"[/#](?!/)", one)] == []
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", answer.text)
    assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|49(?= javascript)", answer.text)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_a_hostile_request_is_shown_in_full_view_and_bounded(store: Store) -> None:
    """The question stands there as it was sent, but for characters that command; five megabytes are cut."""
    page = client(store).get(f"/requests/{quote(HOSTILE)}").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\N{REPLACEMENT CHARACTER}[31m" in page
    assert len(page) < 400_000


@pytest.mark.parametrize("path", [*PAGES, f"/requests/{EXPLAINED}"])
def test_nobody_sees_anything_without_a_token(store: Store, tokens: Path, path: str) -> None:
    """A browser is sent to sign in, and to nowhere else; a program gets 401."""
    visitor = client(store, tokens)
    assert visitor.get(path).status_code == 401
    assert visitor.get(path, headers={"Authorization": "Bearer wrong-token-of-nobody"}).status_code == 401
    sent = visitor.get(path, headers={"Accept": "text/html"})
    assert sent.status_code == 303
    assert sent.headers["location"].startswith("/signin?next=%2F")
    assert visitor.post(WRITES[0], data={"stage-retrieval": "sound"}).status_code == 401


@pytest.mark.parametrize("path", PAGES)
def test_another_tenant_sees_nothing_of_ours(store: Store, tokens: Path, path: str) -> None:
    """Guessed ids and services are as those that do not exist, and lists hold the viewer's own requests alone."""
    rival = client(store, tokens, "rival")
    text = rival.get(path).text
    assert "91,500" not in text
    assert ALTERED not in text
    assert quote(ALTERED, safe="") not in text
    if path.startswith(("/requests/", "/explanations/", "/triage")):
        unknown = rival.get(re.sub(r"acme[^&]*", "acme:none", path))
        assert (rival.get(path).status_code, unknown.status_code) == (404, 404)


def test_the_beginning_of_an_id_leads_to_its_request(store: Store, tokens: Path) -> None:
    """As in a terminal, where it is the viewer's only one; too short, of several, or of another tenant none."""
    beginning = quote(ALTERED[:-1], safe="")
    ours, rival = client(store, tokens, "acme"), client(store, tokens, "rival")
    sent = ours.get(f"/requests/{beginning}")
    assert (sent.status_code, sent.headers["location"]) == (303, f"/requests/{quote(ALTERED, safe='')}")
    assert rival.get(f"/requests/{beginning}").status_code == 404
    assert ours.get(f"/requests/{quote(ALTERED[:5], safe='')}").status_code == 404


def test_filters_find_nothing_of_another_tenant(store: Store, tokens: Path) -> None:
    """Whatever the filter says, the viewer's tenant is asked for as well."""
    rival, ours = client(store, tokens, "rival"), client(store, tokens, "acme")
    for query in (f"service={quote(SERVICE)}", "segment=limit", "tenant_id=acme", "before=9000000000000000000:z"):
        assert ALTERED not in rival.get(f"/requests?{query}").text
    assert quote(ALTERED, safe="") in ours.get("/requests?segment=limit").text
    assert quote(OTHER, safe="") not in ours.get("/requests").text
    assert SECRET not in ours.get("/requests").text


def test_a_session_is_listed_in_the_order_in_which_it_went_on(tmp_path: Path) -> None:
    """Page by page from its first request on; the newest stand first where that is asked for."""
    names = [f"turn-{number:02}" for number in range(30)]
    with Store.open(f"sqlite:///{tmp_path / 'session.db'}") as opened:
        opened.write(
            [
                RequestRecord(request_id=name, service="chat", session_id="s-1", started_at=place + 1)
                for place, name in enumerate(names)
            ]
        )
        me = client(opened)

        def walked(address: str) -> list[str]:
            found: list[str] = []
            while address:
                text = me.get(address).text
                found += re.findall(r'href="/requests/(turn-\d\d)"', text)
                more = re.search(r'class="button" href="([^"]+)">(?:Later|Older) requests', text)
                address = more[1].replace("&amp;", "&") if more else ""
            return found

        assert walked("/requests?session=s-1") == names
        assert walked("/requests?session=s-1&order=newest") == names[::-1]
        assert walked("/requests?service=chat&order=oldest") == names
        assert me.get("/requests?order=sideways").status_code == 400
        assert me.get("/requests?order=oldest&search=words").status_code == 400


def test_requests_are_found_by_who_provided_their_candidates(tmp_path: Path) -> None:
    """As the worker was told to name providers; without that, none is found."""
    with Store.open(f"sqlite:///{tmp_path / 'providers.db'}") as opened:
        for name, site in (("one", "https://docs.example.org/a"), ("two", 'the "old" wiki_')):
            found = (Candidate(chunk_id="c1", rank=1, text="Water.", source=site),)
            opened.write([RequestRecord(request_id=name, service="shop", stages=(RetrieveRun(candidates=found),))])
        worker.run(opened)
        opened.write([RequestRecord(request_id="three", service="shop")])
        worker.run(opened, worker.WorkerSettings(provider="none"))
        me = client(opened)
        for provider, expected in (
            ("docs.example.org", {"one"}),
            ('the "old" wiki_', {"two"}),
            ("example", set()),
            ("%", set()),
        ):
            page = me.get(f"/requests?provider={quote(provider)}").text
            assert set(re.findall(r'class="row" href="/requests/(\w+)"', page)) == expected, provider
        assert len(re.findall(r'class="row"', me.get("/requests").text)) == 3


def test_search_is_for_who_sees_texts_and_for_its_own_tenant(store: Store, tokens: Path, tmp_path: Path) -> None:
    """The field is there once search is on; words of another tenant find nothing, and numbers alone search for none."""
    asked = f"/requests?search={quote(SECRET)}"
    assert client(store).get(asked).status_code == 400
    assert 'name="search"' not in client(store).get("/requests").text
    with Store.open(store_of(tmp_path)) as searched:
        searched.search_on()
        everybody, ours = client(searched), client(searched, tokens, "acme")
        assert quote(OTHER, safe="") in everybody.get(asked).text
        assert 'name="search"' in ours.get("/requests").text
        nothing = ours.get(asked)
        assert quote(OTHER, safe="") not in nothing.text
        assert "No request matches" in nothing.text
        for role in ("numbers", "all-numbers"):
            assert client(searched, tokens, role).get(asked).status_code == 403
            assert 'name="search"' not in client(searched, tokens, role).get("/requests").text
        hostile = everybody.get(f"/requests?search={quote('<img src=x> OR * NEAR')}")
        assert (hostile.status_code, "<img" in hostile.text) == (200, False)


@pytest.mark.parametrize("path", PAGES)
def test_who_sees_numbers_alone_sees_no_text(store: Store, tokens: Path, path: str) -> None:
    """Questions, answers, chunks, claims, notes and errors are left out; verdicts and figures are there."""
    answer = client(store, tokens, "numbers").get(path)
    assert answer.status_code == 200
    for text in ("escape of water", "EUR", "91,500", "Nothing is paid", "Claim 1"):
        assert text not in answer.text


def test_numbers_alone_show_no_explanation(store: Store, tokens: Path) -> None:
    """It is made of texts."""
    page = client(store, tokens, "all").get(f"/requests/{EXPLAINED}").text
    assert "The answer rests most on D" in page
    numbers = client(store, tokens, "all-numbers").get(f"/requests/{EXPLAINED}")
    assert numbers.status_code == 200
    assert "rests most on" not in numbers.text
    assert "theft" not in numbers.text


def test_a_session_begins_with_a_token_and_ends_with_it(store: Store, tmp_path: Path) -> None:
    """The cookie stands for the token while the file has it; a changed cookie stands for nobody."""
    file = tmp_path / "people"
    file.write_text(FILE, encoding="utf-8")
    visitor = client(store, file)
    assert visitor.post("/signin", data={"token": "wrong-token-of-nobody"}).status_code == 401
    begun = visitor.post("/signin", data={"token": TOKENS["acme"], "next": "//evil.example/"})
    assert begun.headers["location"] == "/"
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKENS["acme"] not in cookie
    assert visitor.get("/requests").status_code == 200
    value = visitor.cookies["ragtrace"]
    until = value.split(".")[0]
    changed = value.replace(until, str(int(until) + 9), 1)
    assert client(store, file).get("/requests", headers={"Cookie": f"ragtrace={changed}"}).status_code == 401
    file.write_text(FILE.replace(TOKENS["acme"], "another-token-00000001"), encoding="utf-8")
    assert visitor.get("/requests").status_code == 401


def _form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found is not None
    return found[1]


def test_a_label_is_kept_with_who_gave_it(store: Store) -> None:
    """The stages, the needed chunks and the note; the gold evidence only where the box says so."""
    me = client(store)
    form = {
        "form_token": _form_token(me.get(f"/requests/{ALTERED}").text),
        "stage-retrieval": "sound",
        "stage-ranking": "sound",
        "stage-generation": "broken",
        "needed": "ie#limit",
        "note": EVIL,
        "gold": "yes",
    }
    sent = me.post(f"/labels/{ALTERED}", data=form)
    assert sent.status_code == 303
    label = store.labels(request_ids=[ALTERED])[0]
    assert (label.labeler, label.first_broken, label.needed) == ("me", "generation", ("ie#limit",))
    key = (SERVICE, "What is the most paid for escape of water in Ireland?")
    assert store.find_golds([key])[key].chunk_ids == ("ie#limit",)
    assert "Your label is kept" in me.get(sent.headers["location"]).text
    none = {name: value for name, value in form.items() if name not in ("needed", "gold")} | {"unanswerable": "yes"}
    assert me.post(f"/labels/{ALTERED}", data=none | {"needed": "ie#limit"}).status_code == 400
    assert not store.find_golds([key])[key].is_unanswerable
    sent = me.post(f"/labels/{ALTERED}", data=none)
    found = store.find_golds([key])[key]
    assert (found.chunk_ids, found.is_unanswerable) == ((), True)
    assert store.labels(request_ids=[ALTERED])[0].needed == ()
    assert "no chunk answers it from now on" in me.get(sent.headers["location"]).text
    me.post(f"/labels/{ALTERED}", data=form)
    assert not store.find_golds([key])[key].is_unanswerable
    assert Elements(me.get(f"/requests/{ALTERED}").text).running == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"form_token": ""}, 403),
        ({"form_token": "0" * 64}, 403),
        ({"stage-retrieval": "perhaps"}, 400),
        ({"needed": "rival's chunk"}, 400),
        ({"stage-retrieval": ""}, 400),
        ({"note": "x" * 70_000}, 413),
    ],
)
def test_a_form_that_is_not_ours_writes_nothing(store: Store, change: dict[str, str], status: int) -> None:
    """Without the session's own token, with words or chunks that the request does not know, or too long."""
    me = client(store)
    token = _form_token(me.get(f"/requests/{LOST}").text)
    assert (
        me.post(f"/labels/{LOST}", data={"form_token": token, "stage-retrieval": "sound"} | change).status_code
        == status
    )
    assert store.labels(request_ids=[LOST]) == []


def test_a_form_of_another_site_or_of_a_reader_writes_nothing(store: Store, tokens: Path) -> None:
    """The browser says where a form comes from, and a role that reads may not write."""
    me = client(store)
    form = {"form_token": _form_token(me.get(f"/requests/{LOST}").text), "stage-retrieval": "sound"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert me.post(f"/labels/{LOST}", data=form, headers=headers).status_code == 403
    for who in ("acme", "numbers", "judge"):  # the last one: a header is no session
        for path in WRITES:
            assert client(store, tokens, who).post(path, data=form).status_code == 403
    assert store.labels(request_ids=[LOST]) == []


def test_a_trace_is_linked_where_it_is_shown(store: Store) -> None:
    """Its id is appended, or put where the address says; without an address it stands there alone."""
    record = store.get_record(ALTERED)
    assert record is not None
    store.write([replace(record, request_id="traced", trace_id="ab" * 16)])
    for given, shown in (
        ("http://t/trace/", f"http://t/trace/{'ab' * 16}"),
        ("https://g/{trace_id}?x", f"https://g/{'ab' * 16}?x"),
    ):
        assert f'href="{shown}"' in client(store, trace_url=given).get("/requests/traced").text
    assert 'href="http' not in client(store).get("/requests/traced").text
    with pytest.raises(ConfigurationError, match="an address like"):
        WebSettings(trace_url="javascript:alert(1)")


def test_a_request_becomes_a_test_case(store: Store, tokens: Path, tmp_path: Path) -> None:
    """Its line is one that replays read, with the evidence that is known; who sees no texts gets none."""
    path = f"/testcases/{quote(LOST, safe='')}"
    file = tmp_path / "questions.jsonl"
    file.write_text(client(store).get(path).text, encoding="utf-8")
    (question,) = read_questions(file)
    assert (question.id, question.segment, question.gold) == (LOST, "limit", ("ie#limit",))
    assert client(store, tokens, "rival").get(path).status_code == 404
    assert client(store, tokens, "numbers").get(path).status_code == 403
    assert client(store, tokens).get(path).status_code == 401


def test_drawn_requests_are_labeled_one_after_the_other(store: Store, tokens: Path) -> None:
    """In the order of the draw, without the verdict; skipped ones come last, and each is kept for who labeled it."""
    me = client(store)
    page = f"/label?service={quote(SERVICE)}"
    assert "Nothing is drawn" in me.get(page).text
    drawing = Drawing("d", SERVICE, 0, 2**62, {}, "j", 1, 1.0)
    store.draw(drawing, [Drawn(LOST, 0, "named", 1.0), Drawn(HOSTILE, 1, "named", 1.0)])
    first = me.get(page).text
    assert f'action="/labels/{quote(LOST, safe="")}"' in first
    assert "lost in" not in first
    assert "retrieval: broken" not in first
    skipped = re.search(r'id="skip" href="([^"]+)"', first)
    assert skipped is not None
    assert f'action="/labels/{quote(HOSTILE, safe="")}"' in me.get(skipped[1].replace("&amp;", "&")).text
    form = {"form_token": _form_token(first), "stage-retrieval": "sound", "flow": "yes"}
    sent = me.post(f"/labels/{quote(LOST, safe='')}", data=form)
    assert sent.headers["location"].startswith("/label?service=acme%2Fshop")
    assert "Your label is kept" in me.get(sent.headers["location"]).text
    for who, status in (("rival", 403), ("acme", 403), ("judge", 200), (None, 401)):
        assert client(store, tokens, who).get(page).status_code == status


def _found(number: int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(chunk_id=f"part-{rank}", rank=rank, text=f"Words of part {rank}.") for rank in range(1, number + 1)
    )


def test_each_candidate_can_be_chosen(store: Store) -> None:
    """Also those that the picture leaves out, with their words, where one labels and on the request's own page."""
    record = RequestRecord(
        request_id="many",
        service="acme/many",
        tenant_id="acme",
        started_at=1,
        query=Query(original="Which part?"),
        stages=(RetrieveRun(candidates=_found(40)), GenerateRun(generation=Generation(answer="Part 40."))),
    )
    store.write([record])
    store.draw(Drawing("many", "acme/many", 0, 2**62, {}, "j", 1, 1.0), [Drawn("many", 0, "named", 1.0)])
    me = client(store)
    for page in ("/label?service=acme%2Fmany", "/requests/many"):
        text = me.get(page).text
        assert text.count('type="checkbox" name="needed"') == 40
        assert "Words of part 40." in text
    form = {"form_token": _form_token(text), "stage-retrieval": "sound", "needed": "part-40"}
    assert me.post("/labels/many", data=form).status_code == 303
    assert re.search(r'value="part-40" checked', me.get("/requests/many").text)


def _line(store: Store, request_id: str) -> dict[str, Any]:
    answer = client(store).get(f"/testcases/{quote(request_id, safe='')}")
    assert answer.status_code == 200
    return dict(json.loads(answer.text))


def test_a_test_case_has_no_guessed_gold(store: Store) -> None:
    """A label counts, also one that no candidate holds it; what the analysis chose by itself is no gold evidence."""
    record = store.get_record(ALTERED)
    assert record is not None
    asked = replace(record, request_id="guessed", query=Query(original="What is paid for water in Ireland, at most?"))
    store.write([asked])
    for job in store.claim("test", kinds=("coverage",), limit=100):
        known = store.get_record(job.request_id)
        assert known is not None
        store.finish([Finished(job, analyze_record(known), ())])
    guess = store.get_analysis("guessed")
    assert guess is not None
    assert (guess.reference, bool(guess.reference_chunks)) == ("proxy", True)
    assert "gold" not in _line(store, "guessed")
    me = client(store)
    form = {"form_token": _form_token(me.get("/requests/guessed").text), "stage-retrieval": "broken"}
    assert me.post("/labels/guessed", data=form | {"needed": "gb#limit"}).status_code == 303
    assert _line(store, "guessed")["gold"] == ["gb#limit"]
    assert me.post("/labels/guessed", data=form | {"none-needed": "yes"}).status_code == 303
    assert "gold" not in _line(store, "guessed")


def test_a_test_case_spoils_no_file_of_questions(store: Store, tmp_path: Path) -> None:
    """No line without a question, and no name in it that such a file refuses."""
    record = store.get_record(ALTERED)
    assert record is not None
    unnamed = replace(record, request_id="u" * 300, segment="a\nb", session_id="\x1b")
    store.write([replace(record, request_id="unasked", query=Query()), unnamed])
    me = client(store)
    assert me.get("/testcases/unasked").status_code == 400
    assert "/testcases/" not in me.get("/requests/unasked").text
    file = tmp_path / "questions.jsonl"
    file.write_text(me.get(f"/testcases/{'u' * 300}").text, encoding="utf-8")
    (question,) = read_questions(file)
    assert (question.text, question.segment, question.session) == (record.query.original, None, None)


def test_a_skipped_request_stays_skipped_after_the_next_label(store: Store) -> None:
    """It comes back behind the last one, also where more than fifty were skipped."""
    names = [f"skip-{number}" for number in range(60)]
    store.write([RequestRecord(request_id=name, service="acme/skip", started_at=1) for name in names])
    store.draw(
        Drawing("skip", "acme/skip", 0, 2**62, {}, "j", 1, 1.0),
        [Drawn(name, place, "named", 1.0) for place, name in enumerate(names)],
    )
    me, page = client(store), "/label?service=acme%2Fskip"

    def shown(address: str) -> tuple[str, str]:
        text = me.get(address).text
        action = re.search(r'action="/labels/([^"]+)"', text)
        skip = re.search(r'id="skip" href="([^"]+)"', text)
        assert action is not None
        assert skip is not None
        return action[1], skip[1].replace("&amp;", "&")

    first, skip = shown(page)
    second, _ = shown(skip)
    form = {"form_token": _form_token(me.get(skip).text), "stage-retrieval": "sound", "flow": "yes"}
    third, skip = shown(me.post(f"/labels/{second}", data=form).headers["location"])
    assert (first, second, third) == ("skip-0", "skip-1", "skip-2")
    for name in names[3:]:
        found, skip = shown(skip)
        assert found == name
    assert shown(skip)[0] == "skip-0"


def test_triage_leads_to_the_runbook_and_to_a_postmortem(store: Store, tokens: Path) -> None:
    """Both are there for who sees texts of the whole service; a runbook is one of ours."""
    me = client(store)
    page = me.get(f"/triage?service={quote(SERVICE)}&stage=ranking&severity=ticket").text
    assert "<option selected>ranking</option>" in page
    assert "<option selected>ticket</option>" in page
    draft = f"/postmortem?service={quote(SERVICE)}"
    saved = me.get(draft)
    assert saved.headers["content-disposition"].startswith("attachment")
    assert saved.text.startswith("# Postmortem: ")
    assert client(store, tokens, "rival").get(draft).status_code == 404
    assert client(store, tokens, "numbers").get(draft).status_code == 403
    assert client(store, tokens).get(draft).status_code == 401
    assert "<h1>Retrieval: the evidence is not found</h1>" in me.get("/runbooks/retrieval.md").text
    steps = re.search(r"<ol>(.*?)</ol>", me.get("/runbooks/retrieval").text, flags=re.DOTALL)
    assert steps is not None
    assert re.findall(r'<li value="(\d+)">', steps[1]) == [str(number) for number in range(1, 9)]
    for name in ("nothing", "..%2f..%2fREADME", "../../pyproject"):
        assert me.get(f"/runbooks/{name}").status_code == 404


def test_each_service_has_a_figure_in_the_list(tmp_path: Path) -> None:
    """Over its budget, within it, or not sure yet: how many times the budget is broken stands with each alike."""
    end, hour = 1_700_000_000_000_000_000, 60 * MINUTE
    with Store.open(f"sqlite:///{tmp_path}/services.db") as store:
        for name, share in (("over", 0.4), ("unsure", 0.08), ("within", 0.0)):
            broken = Break("generation", share, 0.0)

            class Named(Traffic):
                def _record(self, *place: Any) -> RequestRecord:
                    made = super()._record(*place)
                    return replace(made, service=name, request_id=f"{name}-{made.request_id}")  # noqa: B023

            store_traffic(store, Named(100, end - hour, end, (broken,)))
        page = client(store).get("/").text
    for name in ("over", "unsure", "within"):
        row = re.search(rf"<bdi>{name}</bdi>.*?</tr>", page, flags=re.DOTALL)
        assert row is not None
        found = re.findall(r'<p class="state (\w+)">(.) ([0-9.]+) times its budget(, not sure yet)?</p>', row[0])
        assert len(found) == 4
        verdict, sign, times, unsure = found[2]
        assert (verdict, sign) == {
            "over": ("over", "✗"), "unsure": ("unclear", "?"), "within": ("within", "✓"),
        }[name]  # fmt: skip
        assert bool(unsure) is (name == "unsure")
        assert name == "unsure" or (float(times) > 1) is (name == "over")


def test_each_count_of_doubt_leads_to_its_requests(tmp_path: Path) -> None:
    """Triage names some and leads to a list of just those that it counted; each of them says that it counts."""
    url = f"sqlite:///{tmp_path}/doubt.db"
    end, hour = 1_700_000_000_000_000_000, 60 * MINUTE
    doubt = Break("retrieval", 0.2, 0.0, state="suspected", reason="low_match")
    with Store.open(url) as store:
        store_traffic(store, Traffic(200, end - 2 * hour, end, (doubt,)))
        me = client(store)
        page = me.get(f"/triage?service={quote(TRAFFIC)}&since={end - hour}&until={end}").text
        links = [one for one in Elements(page).addresses if "in_doubt=retrieval" in one]
        assert len(links) == 1
        listed = [one for one in Elements(me.get(links[0]).text).addresses if one.startswith("/requests/")]
        more = me.get(f"{links[0]}&order=oldest").text
    counted = re.search(r"in doubt: (\d+) of", page)
    assert counted is not None
    assert len(listed) == int(counted[1]) > 3
    assert [one for one in Elements(page).addresses if one in listed] == listed[:3]
    assert '<option value="retrieval" selected>retrieval</option>' in more


def test_each_page_leads_to_all_others(store: Store, tokens: Path) -> None:
    """Of the service that it is about: triage for who sees the whole service, the label queue for who may judge."""
    own = f"?service={quote(SERVICE, safe='')}"
    me = client(store)
    for page in (f"/{own}", f"/requests{own}", f"/requests/{quote(ALTERED, safe='')}", f"/triage{own}", f"/label{own}"):
        found = Elements(me.get(page).text).addresses
        assert {f"/{own}", f"/requests{own}", f"/triage{own}", "/gate", f"/label{own}"} <= set(found), page
    for page in ("/gate", "/runbooks/retrieval", f"/explanations/{quote(LOST, safe='')}"):
        assert {"/", "/requests", "/triage", "/gate"} <= set(Elements(me.get(page).text).addresses), page
    assert "Triage: of which service?" in me.get("/triage").text
    rivals = client(store, tokens, "rival").get("/triage").text
    assert "rival/bank" in rivals
    assert SERVICE not in rivals
    shown = client(store, tokens, "acme").get(f"/requests/{quote(ALTERED, safe='')}").text
    assert f"/triage{own}" in shown
    assert f"/label{own}" not in shown
    assert "/triage" not in client(store, tokens).get("/signin").text


def test_a_runbook_leads_to_the_pages_that_stand_for_its_commands(store: Store, tokens: Path) -> None:
    """With the service and the window that it was opened from, and to the runbooks that it names; another tenant's
    service is none."""
    me = client(store)
    window = f"service={quote(SERVICE, safe='')}&since=1&until=2"
    link = f"/runbooks/ranking.md?{window}"
    page = Elements(me.get(link).text).addresses
    assert {f"/triage?{window}", f"/requests?{window}&stage=ranking", f"/triage?{window}#judge"} <= set(page)
    assert "/runbooks/retrieval" in Elements(me.get("/runbooks/generation").text).addresses
    foreign = client(store, tokens, "rival").get(link).text
    assert quote(SERVICE, safe="") not in foreign
    assert "on its page or by <code>ragtrace show REQUEST_ID</code>" in foreign


def test_a_text_of_a_report_has_its_commands_and_runbooks() -> None:
    """In back quotes a command; the path of a runbook is a link where there is one of this name."""
    text = "Ask (docs/runbooks/retrieval.md, step 3), or docs/runbooks/none.md: `ragtrace drift`."
    assert linked(text) == (
        Piece("Ask ("),
        Piece("runbook retrieval", runbook="retrieval"),
        Piece(", step 3), or "),
        Piece("docs/runbooks/none.md"),
        Piece(": "),
        Piece("ragtrace drift", is_code=True),
        Piece("."),
    )
    assert all(not path.startswith("docs/how-to") for fix in FIXES.values() for path in re.findall(r"docs/\S+", fix))


def test_an_alert_s_link_means_something_the_day_after(store: Store, tokens: Path) -> None:
    """Behind the last request stands the day before it; the segments past the limit are walked as all; who may not
    judge here reads the command of the terminal."""
    link = f"/triage?service={quote(SERVICE)}&segment=other&stage=ranking&since={2**62}"
    page = client(store, tokens, "acme").get(link)
    assert page.status_code == 200
    assert "no requests" not in page.text
    assert "--segment=other --stage=ranking --severity=page right|wrong-stage|false" in page.text


def test_a_page_that_was_right_is_kept(store: Store) -> None:
    """Of the alert's service, segment and stage, with who said so; of a service that is not there nothing is."""
    me = client(store)
    form = {
        "form_token": _form_token(me.get(f"/triage?service={quote(SERVICE)}").text),
        "service": SERVICE,
        "segment": "limit",
        "stage": "generation",
        "judgment": "wrong_stage",
    }
    assert me.post("/alerts", data=form | {"service": "nobody"}).status_code == 400
    assert me.post("/alerts", data=form | {"stage": EVIL}).status_code == 400
    assert me.post("/alerts", data=form).status_code == 303
    kept = store.page_judgments(SERVICE)
    assert [(one.stage, one.judgment, one.comment) for one in kept] == [("generation", "wrong_stage", "me")]


def test_this_machine_alone_answers_its_own_name_alone(store: Store) -> None:
    """A page of another name that resolves to this machine reads nothing; no other address is served without tokens."""
    assert client(store).get("/", headers={"Host": "evil.example"}).status_code == 421
    assert client(store).get("/", headers={"Host": "127.0.0.1:8460"}).status_code == 200
    with pytest.raises(ConfigurationError, match="give --tokens"):
        WebSettings(host="0.0.0.0")


def test_who_read_what_is_written_down(store: Store, tokens: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The viewer and the request, on one line; nothing where no text was shown."""
    with caplog.at_level(logging.INFO, "ragtrace.web.reading"):
        client(store, tokens, "acme").get(f"/requests/{ALTERED}")
        client(store, tokens, "numbers").get(f"/requests/{ALTERED}")
        client(store, tokens, "rival").get(f"/requests/{ALTERED}")
    assert [one.getMessage() for one in caplog.records] == [f"bob (tenant acme) read the content of request {ALTERED}"]


@pytest.mark.parametrize(
    "query", ["stage=nowhere", "since=tomorrowish", "before=99999999999999999999:x", "segment=" + "x" * 400, "until=-1"]
)
def test_a_filter_that_means_nothing_is_said_to(store: Store, query: str) -> None:
    """It is no reason to show everything, or to fail."""
    answer = client(store).get(f"/requests?{query}")
    assert answer.status_code in (200, 400)
    assert answer.status_code == 400 or "before" in query


@pytest.mark.parametrize(
    "line",
    ["ann short tenant=* role=content", "ann a-token-of-some-length", "ann a-token-of-some-length tenant=* role=king"],
)
def test_a_tokens_file_that_cannot_be_used_is_refused(tmp_path: Path, line: str) -> None:
    """The message names the line, and never the token."""
    file = tmp_path / "people"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 1") as refused:
        People(file)
    assert line.split()[1] not in str(refused.value)


def test_an_emptied_tokens_file_lets_nobody_in(store: Store, tmp_path: Path) -> None:
    """Whoever stood there is signed out at once."""
    file = tmp_path / "people"
    file.write_text(FILE, encoding="utf-8")
    visitor = client(store, file)
    bearer = {"Authorization": f"Bearer {TOKENS['acme']}"}
    assert visitor.get("/requests", headers=bearer).status_code == 200
    file.write_text("# nobody any more\n", encoding="utf-8")
    assert visitor.get("/requests", headers=bearer).status_code == 401


def test_a_proxy_names_who_looks(store: Store, tmp_path: Path) -> None:
    """By a name of the file that has no token, from the proxy's address, and once; nobody else is believed."""
    file = tmp_path / "people"
    file.write_text(f"{FILE}\nann@example.org - tenant=acme role=judge\nzed - tenant=rival role=numbers\n", "utf-8")
    app = make_app(store, People(file, may_judge=True), proxy=Proxy("X-User", ("10.0.0.5",)))
    page = f"/requests/{ALTERED}"

    def asked(peer: str, *names: str, path: str = page) -> Any:
        visitor = TestClient(app, base_url="http://localhost", client=(peer, 1), follow_redirects=False)
        return visitor.get(path, headers=[("X-User", name) for name in names])

    shown = asked("10.0.0.5", "ann@example.org")
    assert (shown.status_code, "91,500" in shown.text, "Sign out" in shown.text) == (200, True, False)
    assert asked("10.0.0.5", "zed").status_code == 404
    for peer, names in (
        ("10.0.0.6", ("ann@example.org",)),
        ("10.0.0.5", ("ann@example.org", "ann@example.org")),
        ("10.0.0.5", ("bob",)),  # who has a token
        ("10.0.0.5", ("-",)),
        ("10.0.0.5", ("",)),
        ("10.0.0.5", ()),
    ):
        assert asked(peer, *names).status_code == 401, (peer, names)
    labeler = TestClient(app, base_url="http://localhost", client=("10.0.0.5", 1), follow_redirects=False)
    named = {"X-User": "ann@example.org"}
    form = {"form_token": _form_token(labeler.get(page, headers=named).text), "stage-retrieval": "sound"}
    assert labeler.post(f"/labels/{ALTERED}", data=form, headers=named).status_code == 303
    assert labeler.get(page).status_code == 401  # the cookie of its forms is no session
    assert [one.labeler for one in store.labels(request_ids=[ALTERED]) if "@" in one.labeler] == ["ann@example.org"]
    for wrong in ("zed - tenant=a role=numbers\nzed - tenant=b role=content",):
        file.write_text(wrong, "utf-8")
        with pytest.raises(ConfigurationError, match="line 2: this name stands there twice"):
            People(file)
    with pytest.raises(ConfigurationError, match="--tokens"):
        WebSettings(proxy=Proxy("X-User"))
    with pytest.raises(ConfigurationError, match="--proxy-from"):
        Proxy("X-User", ("example.org",))


def test_a_form_of_another_site_begins_no_session(store: Store, tokens: Path) -> None:
    """Nobody is signed in as somebody else by a page that they happen to read."""
    sent = {"data": {"token": TOKENS["acme"]}}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://["}):
        answer = client(store, tokens).post("/signin", headers=headers, **sent)  # type: ignore[arg-type]
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_an_address_brings_no_words_of_its_own(store: Store) -> None:
    """What was kept is chosen by the address, and said by the page."""
    words = "send your token to nobody.example"
    assert "nobody.example" not in client(store).get(f"/requests/{ALTERED}?kept={quote(words)}").text


@pytest.mark.parametrize("path", ["/requests?since=", "/requests?until=", f"/triage?service={quote(SERVICE)}&since="])
@pytest.mark.parametrize("time", ["9999999999999999999", "0001-01-01T00:00Z"])
def test_a_time_that_no_store_keeps_is_refused(store: Store, path: str, time: str) -> None:
    """With a page that says so, not with an error of the server."""
    assert client(store).get(path + time).status_code == 400


def test_a_request_with_endless_texts_is_a_page_of_bounded_size(store: Store) -> None:
    """However many chunks are long; the question and the answer are there."""
    record = store.get_record(ALTERED)
    assert record is not None
    text = "It is so. " * 1_200
    chunks = tuple(PackedChunk(chunk_id=f"c{place}", position=place, text=text) for place in range(1, 601))
    long = replace(
        record,
        request_id="endless",
        stages=(PackRun(packing=Packing(chunks=chunks)), GenerateRun(generation=Generation(answer="It is."))),
    )
    store.write([long])
    page = client(store).get("/requests/endless").text
    assert len(page) < 8_000_000
    assert page.count("It is so. ") < 210_000
    assert "It is." in page


def test_an_explanation_is_asked_for_and_its_progress_shown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form enqueues it once; the page says where it stands, what failed, and leads to the request at the end."""
    me = client(store)
    page = f"/explanations/{HOSTILE}"
    assert me.get(page).headers["location"] == f"/requests/{quote(HOSTILE, safe='')}#explained"
    asked = me.get(f"/requests/{HOSTILE}").text
    cost = r"Where its models are behind servers: at most [\d,]+ scored prompts and [\d,]+ vectors, about"
    assert not re.search(cost, asked)  # endless texts are not counted
    assert re.search(cost, me.get(f"/requests/{ALTERED}").text)
    form = {"form_token": _form_token(asked)}
    for _ in range(2):
        assert me.post(page, data=form).headers["location"] == f"/explanations/{quote(HOSTILE, safe='')}"
    assert [one.state for one in store.jobs(kind="attribution", request_id=HOSTILE)] == ["pending"]
    with monkeypatch.context() as patched:  # a page that is asked again and again reads no texts
        patched.setattr(Store, "get_record", lambda *_: pytest.fail("the record was read"))
        assert "It waits for a worker; 1 other explanation comes before it." in me.get(page).text
    assert "It waits for a worker" in me.get(f"/requests/{HOSTILE}").text
    job = {one.request_id: one for one in store.claim("w", kinds=("attribution",), limit=2)}[HOSTILE]
    assert "It is being computed, attempt 1." in me.get(page).text
    store.fail(job, EVIL, for_good=True)
    failed = me.get(page).text
    assert "Try it again" in failed
    assert Elements(failed).running == []
    assert me.post("/explanations/nobody", data=form).status_code == 404
    assert me.post(page, data=form).status_code == 303
    assert [one.state for one in store.jobs(kind="attribution", request_id=HOSTILE)] == ["pending"]
    store.drop_jobs(state="pending", kind="attribution")
