"""Each route of the pages, asked by each kind of viewer: what it refuses, and what it makes of the words in a field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ragtrace.analyze import worker
from ragtrace.config import load
from ragtrace.record.content import ContentPolicy
from ragtrace.store import Drawing, Drawn, Store
from ragtrace.types import (
    Candidate,
    ErrorInfo,
    Feedback,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RetrieveRun,
    replace,
)
from ragtrace.web import Everybody, People, make_app
from tests.analyze.test_retrieval_grading import WordJudge
from tests.web.fields import FIELDS, named, with_text
from tests.web.gated import COMPARED, RIVALS, RUN
from tests.web.stored import ALTERED, EVIL, SECRET, SERVICE, request, store_of
from tests.web.test_pages import Elements

ID = quote(ALTERED, safe="")
WHO: Final = {
    (tenant, role): f"{tenant}-{role}-token-of-somebody"
    for tenant in ("acme", "rival")
    for role in ("numbers", "content", "judge")
}
OPEN: Final = {"GET /signin", "POST /signin", "POST /signout", "GET /static/{name}", "GET /healthz"}
"""Routes that anybody may ask: they hold nothing of the store."""
ASKED: Final[dict[str, tuple[str, ...]]] = {
    "GET /": (f"/?service={quote(SERVICE)}",),
    "GET /requests": (f"/requests?service={quote(SERVICE)}", "/requests?segment=limit", "/requests?order=oldest"),
    "GET /requests/{request_id:path}": (f"/requests/{ID}",),
    "GET /grades/{request_id:path}": (f"/grades/{ID}?chunk=ie%23limit",),
    "GET /explanations/{request_id:path}": (f"/explanations/{ID}",),
    "POST /explanations/{request_id:path}": (f"/explanations/{ID}",),
    "GET /label": (f"/label?service={quote(SERVICE)}",),
    "GET /testcases/{request_id:path}": (f"/testcases/{ID}",),
    "POST /labels/{request_id:path}": (f"/labels/{ID}",),
    "GET /triage": (f"/triage?service={quote(SERVICE)}", f"/triage?service={quote(SERVICE)}&segment=limit"),
    "GET /postmortem": (f"/postmortem?service={quote(SERVICE)}",),
    "GET /runbooks/{name:path}": ("/runbooks/retrieval",),
    "POST /alerts": ("/alerts",),
    "GET /gate": ("/gate",),
    "GET /gate/{run_id:path}": (f"/gate/{RUN}",),
    "GET /compare": (COMPARED,),
}
"""What each other route is asked for by whoever wants to see acme's."""
REFUSED: Final = {
    "/requests/",
    "/grades/",
    "/explanations/",
    "/label",
    "/testcases/",
    "/triage",
    "/postmortem",
    "/gate/",
    "/compare",
}
"""Addresses that name what is acme's: for others there is no such thing. The rest shows what is theirs."""
FOR_JUDGES: Final = {
    "GET /label",
    "POST /explanations/{request_id:path}",
    "POST /labels/{request_id:path}",
    "POST /alerts",
}
OF_TEXTS: Final = {"GET /grades/{request_id:path}", "GET /testcases/{request_id:path}", "GET /postmortem"}
FORM: Final = {
    "service": SERVICE,
    "segment": "limit",
    "stage": "ranking",
    "judgment": "right",
    "stage-retrieval": "broken",
}
ADDRESSES = [(route, address) for route, addresses in ASKED.items() for address in addresses]
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two tenants' requests, replays and gate runs, with a drawing to be labeled."""
    with Store.open(store_of(tmp_path_factory.mktemp("routes"))) as opened:
        opened.draw(Drawing("d", SERVICE, 0, 2**62, {}, "j", 1, 1.0), [Drawn(ALTERED, 0, "named", 1.0)])
        yield opened


@pytest.fixture(scope="module")
def ask(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Ask a route as somebody of a tenant and role, with a session and its form; None: as nobody."""
    file = tmp_path_factory.mktemp("people") / "people"
    lines = (f"{tenant}-{role} {token} tenant={tenant} role={role}" for (tenant, role), token in WHO.items())
    file.write_text("\n".join(lines), encoding="utf-8")
    app = make_app(store, People(file, may_judge=True), relevance=WordJudge())
    visitors: dict[object, TestClient] = {}

    def asked(who: tuple[str, str] | None, route: str, address: str, **changed: str) -> Any:
        visitor = visitors.get(who)
        if visitor is None:
            visitor = visitors[who] = TestClient(app, base_url="http://localhost", follow_redirects=False)
            if who is not None:
                assert visitor.post("/signin", data={"token": WHO[who]}).status_code == 303
        if route.startswith("GET"):
            return visitor.get(address)
        page = "" if who is None else visitor.get("/triage?service=rival%2Fbank").text if who[0] == "rival" else ""
        page = page or visitor.get(f"/requests/{ID}").text
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
        return visitor.post(address, data={**FORM, "form_token": token[1] if token else "", **changed})

    return asked


def test_each_route_is_tried(store: Store) -> None:
    """One that is added has to be put among those that are open to all, or those that are not."""
    routes = {
        f"{method} {route.path}"  # type: ignore[attr-defined]  # all of them are plain routes
        for route in make_app(store, Everybody()).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    assert routes == OPEN | set(ASKED)


@pytest.mark.parametrize(("route", "address"), ADDRESSES)
def test_nobody_gets_anything(ask: Ask, route: str, address: str) -> None:
    """Neither a page nor a form."""
    assert ask(None, route, address).status_code == 401


@pytest.mark.parametrize(("route", "address"), ADDRESSES)
@pytest.mark.parametrize("role", ["content", "judge"])
def test_another_tenant_finds_nothing_of_ours(ask: Ask, store: Store, route: str, address: str, role: str) -> None:
    """By guessed ids, in filters, in comparisons, by forms with a good signature: it is as what does not exist."""
    labels, judged = store.labels(request_ids=[ALTERED]), store.page_judgments(SERVICE)
    jobs = store.jobs(kind="attribution", request_id=ALTERED)
    answer = ask(("rival", role), route, address)
    for words in ("91,500", ALTERED, ID, "acme before", RUN):
        assert words not in answer.text, words
    if route in FOR_JUDGES and role == "content":
        assert answer.status_code == 403
    elif route == "POST /alerts":
        assert answer.status_code == 400
    elif any(address.startswith(one) for one in REFUSED) or address.startswith(("/labels/", "/?")):
        unknown = ask(("rival", role), route, re.sub(r"acme(?=[:%/ +])|0199-acme", "nobody", address))
        assert (answer.status_code, unknown.status_code) == (404, 404)
        assert re.sub(r"nobody", "acme", unknown.text) == answer.text
    assert (store.labels(request_ids=[ALTERED]), store.page_judgments(SERVICE)) == (labels, judged)
    assert store.jobs(kind="attribution", request_id=ALTERED) == jobs


@pytest.mark.parametrize("address", RIVALS)
def test_a_comparison_of_another_tenant_is_none(ask: Ask, address: str) -> None:
    """Neither both of its replays, nor one beside one's own."""
    mixed = f"/compare?a={quote('acme before')}&b={quote('rival after')}"
    for one in (address, mixed):
        answer = ask(("acme", "content"), "GET", one)
        assert answer.status_code == 404
        assert "rival/" not in answer.text


@pytest.mark.parametrize(("route", "address"), ADDRESSES)
def test_a_role_sees_and_does_what_is_its_own(ask: Ask, route: str, address: str) -> None:
    """Numbers alone show no text, who reads cannot write, and who judges can do both."""
    numbers = ask(("acme", "numbers"), route, address)
    for words in ("91,500", "escape of water", "Nothing is paid", "Claim 1", SECRET):
        assert words not in numbers.text
    is_refused = route in FOR_JUDGES | OF_TEXTS
    assert (numbers.status_code == 403) == is_refused
    assert (ask(("acme", "content"), route, address).status_code == 403) == (route in FOR_JUDGES)
    assert ask(("acme", "judge"), route, address).status_code in (200, 303)


@pytest.mark.parametrize("route", [route for route in ASKED if route.startswith("POST")])
def test_a_form_without_its_signature_writes_nothing(ask: Ask, route: str) -> None:
    """Also of somebody who may judge."""
    assert ask(("acme", "judge"), route, ASKED[route][0], form_token="0" * 64).status_code == 403


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, dict[str, str]]]:
    """The pages over requests of which each has scripts, terminal codes, a turned line and a very long one in another
    field, judged by a worker; and by field the request."""
    base = request("base", "The most we pay for theft is GBP 4,000 for each event [1].", ("ie#limit", "gb#limit"))
    records = {
        named(path): with_text(replace(base, request_id=f"f{place}"), path, EVIL + "x" * 60_000)
        for place, path in enumerate(FIELDS)
    }
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('fields') / 'fields.db'}") as opened:
        opened.write(list(records.values()))
        worker.run(opened)
        ids = [one.request_id for one in records.values()]
        for service in opened.services():
            drawing = Drawing(f"of {service[:9]}", service, 0, 2**62, {}, "j", 1, 1.0)
            opened.draw(drawing, [Drawn(one, place, "named", 1.0) for place, one in enumerate(ids)])
        opened.search_on()
        app = make_app(opened, Everybody(may_judge=True, name="me"), is_local=True, trace_url="https://traces.example/")
        visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
        yield visitor, {name: one.request_id for name, one in records.items() if len(one.request_id) < 4_000}


def _is_harmless(answer: Any) -> None:
    assert answer.status_code in (200, 303, 400, 404)
    assert len(answer.text) < 2_500_000
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", answer.text)
    if answer.headers.get("content-type", "").startswith("text/html"):
        found = Elements(answer.text)
        assert "img" not in found.names
        assert found.running == []
        outside = [one for one in found.addresses if not re.match(r"[/#](?!/)", one)]
        assert [one for one in outside if not one.startswith("https://traces.example/")] == []
        assert not re.search(r"<script>|49 javascript", answer.text)


@pytest.mark.parametrize("path", FIELDS, ids=named)
def test_a_request_with_hostile_words_in_a_field_is_harmless(
    hostile: tuple[TestClient, dict[str, str]], path: tuple[Any, ...]
) -> None:
    """On its page, as a test case, where it is labeled, and where its explanation is asked for."""
    visitor, ids = hostile
    if named(path) not in ids:
        assert "request_id" in named(path)
        return
    name = ids[named(path)]
    for address in (f"/requests/{name}", f"/testcases/{name}", f"/explanations/{name}", f"/requests?session={name}"):
        _is_harmless(visitor.get(address))


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/requests",
        "/requests?order=oldest",
        "/requests?search=theft",
        "/gate",
        *(f"{page}?service={quote(SERVICE)}" for page in ("/", "/triage", "/postmortem", "/label", "/requests")),
        *(f"/?service={quote(SERVICE)}&window={window}" for window in ("1h", "7d", "all")),
    ],
)
def test_a_list_of_hostile_requests_is_harmless(hostile: tuple[TestClient, dict[str, str]], address: str) -> None:
    """Page after page."""
    visitor, _ = hostile
    for _ in range(4):
        answer = visitor.get(address)
        _is_harmless(answer)
        assert answer.status_code == 200
        more = re.search(r'class="button" href="(/requests[^"]+)">', answer.text)
        if more is None:
            break
        address = more[1].replace("&amp;", "&")


@pytest.mark.parametrize(
    "address",
    [
        "/?service={}", "/?window={}", "/requests?service={}", "/requests?segment={}", "/requests?session={}",
        "/requests?rollout={}", "/requests?version={}", "/requests?flag={}", "/requests?search={}",
        "/requests?stage={}", "/requests?before={}", "/requests?since={}", "/requests?order={}", "/requests/{}",
        "/testcases/{}", "/grades/{}", "/grades/f1?chunk={}",
        "/explanations/{}", "/gate/{}", "/compare?a={}&b={}", "/triage?service={}", "/runbooks/{}", "/label?service={}",
        f"/triage?service={quote(SERVICE)}&segment={{}}", f"/label?service={quote(SERVICE)}&after={{}}",
        f"/triage?service={quote(SERVICE)}&stage={{}}&severity={{}}", "/signin?next={}", "/requests/f1?kept={}", "/{}",
    ],
)  # fmt: skip
def test_hostile_words_in_an_address_are_harmless(hostile: tuple[TestClient, dict[str, str]], address: str) -> None:
    """They find nothing, or are refused, and come back as text."""
    visitor, _ = hostile
    for words in (EVIL, EVIL + "x" * 9_000, "\x00", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        _is_harmless(visitor.get(address.replace("{}", quote(words, safe=""))))


@pytest.mark.parametrize("capture", ["redacted", "hash", "off"])
def test_what_was_not_captured_is_on_no_page(tmp_path: Path, capture: str) -> None:
    """Redacted words, and all words where none are kept: no route shows more than the store holds."""
    secrets = ("ann@example.org", "DE89370400440532013000")
    words = f"Write to {secrets[0]} about {secrets[1]}."
    policy = ContentPolicy(load(capture_content=capture, redact=("email", "iban")))
    base = request("kept", words, ("ie#limit",), session_id="s")
    record = replace(
        base,
        query=Query(original=words, rewritten=words),
        error=ErrorInfo(type="Failed", message=words),
        stages=(
            RetrieveRun(query=words, candidates=(Candidate(chunk_id="c", rank=1, text=words),)),
            PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="c", position=1, text=words),))),
            GenerateRun(generation=Generation(answer=words, prompt_template=words)),
        ),
        feedback=(Feedback(request_id="kept", comment=words, feedback_id="f"),),
    )
    with Store.open(f"sqlite:///{tmp_path / 'kept.db'}") as opened:
        opened.write([policy.finish(record)])
        worker.run(opened)
        opened.draw(Drawing("d", SERVICE, 0, 2**62, {}, "j", 1, 1.0), [Drawn("kept", 0, "named", 1.0)])
        opened.search_on()
        app = make_app(opened, Everybody(may_judge=True, name="me"), is_local=True)
        visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
        pages = [address.replace(ID, "kept") for route, address in ADDRESSES if route.startswith("GET")]
        shown = [visitor.get(address).text for address in (*pages, "/requests?search=write", "/requests?session=s")]
    assert not [secret for secret in secrets if any(secret in text for text in shown)]
    assert any("Write to" in text for text in shown) == (capture == "redacted")
