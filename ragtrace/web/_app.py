"""The routes: who asks, what this viewer may see of it, a page of it, and the headers that let a browser run nothing.

Every text on a page goes through one escape, which also shows control characters and characters that turn a line round
as what they are. What this viewer may not see is as what does not exist.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from ragtrace.errors import ConfigurationError, CorruptStore, RagtraceError, RecordError
from ragtrace.explanations import Explanation
from ragtrace.export.evidence_path import shown_rank
from ragtrace.export.request_view import LONGEST, bounded, request_view
from ragtrace.html_page import Html, asset, templates
from ragtrace.registry.wording import release_words
from ragtrace.safe_text import visible
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.store.tables import STAGE_NAMES
from ragtrace.types import Analysis, RequestRecord, replace
from ragtrace.web._access import COOKIE, Access, Proxy, Sessions, Viewer
from ragtrace.web._drawings import path_picture, stylesheet, times_picture
from ragtrace.web._explanations import GradePages, ask_for_explanation, asking_cost, explanation_state
from ragtrace.web._gate_pages import comparing, gate_list, gate_report
from ragtrace.web._judgments import KEPT, SAID, asked_stages, judge_page, label_queue, label_request, test_case
from ragtrace.web._on_call import linked, postmortem_draft, runbook, runbook_names, triage_view
from ragtrace.web._overview import COUNTED, WINDOWS, overview, service_lines
from ragtrace.web._request_list import CHOICES, path_part, query_part, read_filter, rows_page

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ragtrace.coverage.verifier import RelevanceJudge

__all__ = ["make_app"]

_READING: Final = logging.getLogger("ragtrace.web.reading")
_LOG: Final = logging.getLogger("ragtrace.web")
_FORM: Final = 64 * 1024  # bytes of a form
_DRAFT: Final = 1_000_000  # characters of a postmortem
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M2 4h5l3 8h4" fill="none" stroke="#c5362b" '
    'stroke-width="2.5"/></svg>'
)
_SHORTEST: Final = 6  # characters of an id that is looked for by its beginning
_BEGINNINGS: Final = 20  # ids that begin alike, of which a viewer's own is looked for
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")


class _Refused(Exception):
    """What is answered in place of a page."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status, self.title, self.text = status, title, text


_UNKNOWN: Final = partial(_Refused, 404, "There is no such page")
_NOT_YOURS: Final = partial(_UNKNOWN, "No request has this id, or it is not yours to see.")
_NUMBERS: Final = partial(_Refused, 403, "You see no texts", "Your token's role shows numbers alone.")
_READER: Final = partial(
    _Refused,
    403,
    "You may read, not judge",
    "It takes a token whose role is judge; at the store's own machine, pages opened by `ragtrace web --judge`.",
)
_DAMAGED: Final = partial(
    _Refused, 500, "This record cannot be read", "It is damaged in the store; ragtrace db check tells which ones are."
)
_FOREIGN: Final = partial(_Refused, 403, "This form is not known", "Open the page again and send its form.")


def make_app(
    store: Store,
    access: Access,
    *,
    is_local: bool = False,
    is_secure: bool = False,
    trace_url: str | None = None,
    proxy: Proxy | None = None,
    relevance: RelevanceJudge | None = None,
) -> Starlette:
    """The application, for any ASGI server.

    is_local: it is reached by this machine's own names alone, so that a request under another name is another page's
    trick. is_secure: it is reached over TLS, and its cookie goes over nothing else. trace_url: where a trace is shown.
    proxy: one that signs people in. relevance: what explains grades of chunks; None: nothing does.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Route

    pages = _Pages(
        store, Sessions(access), _environment(), asks=access.asks, is_secure=is_secure, trace_url=trace_url,
        proxy=proxy, grades=GradePages(relevance),
    )  # fmt: skip
    page = pages.route
    routes = [
        Route("/", page(pages.overview), methods=["GET"]),
        Route("/requests", page(pages.requests), methods=["GET"]),
        Route("/requests/{request_id:path}", page(pages.request), methods=["GET"]),
        Route("/explanations/{request_id:path}", page(pages.progress), methods=["GET"]),
        Route("/explanations/{request_id:path}", page(pages.explain, writes=True), methods=["POST"]),
        Route("/grades/{request_id:path}", page(pages.grade), methods=["GET"]),
        Route("/label", page(pages.label_next), methods=["GET"]),
        Route("/testcases/{request_id:path}", page(pages.test_case), methods=["GET"]),
        Route("/labels/{request_id:path}", page(pages.label, writes=True), methods=["POST"]),
        Route("/triage", page(pages.triage), methods=["GET"]),
        Route("/postmortem", page(pages.postmortem), methods=["GET"]),
        Route("/runbooks/{name:path}", page(pages.runbook), methods=["GET"]),
        Route("/alerts", page(pages.judge_alert, writes=True), methods=["POST"]),
        Route("/gate", page(pages.gate), methods=["GET"]),
        Route("/gate/{run_id:path}", page(pages.gate_run), methods=["GET"]),
        Route("/compare", page(pages.compare), methods=["GET"]),
        Route("/signout", page(pages.sign_out, is_open=True, reads_form=True), methods=["POST"]),
        Route("/signin", page(pages.sign_in_form, is_open=True), methods=["GET"]),
        Route("/signin", page(pages.sign_in, is_open=True, reads_form=True), methods=["POST"]),
        Route("/static/{name}", pages.static, methods=["GET"]),
        Route("/healthz", pages.health, methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, is_local=is_local)],
        exception_handlers={404: pages.not_found, 405: pages.not_found},
    )
    app.router.redirect_slashes = False  # it would name the host that the request itself names
    return app


class _Guard:
    """The headers of every answer; refuses names of other hosts where only this machine may ask."""

    def __init__(self, app: ASGIApp, is_local: bool) -> None:
        self._app, self._is_local = app, is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from starlette.responses import PlainTextResponse

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(
                    (name.lower().encode(), value.encode())
                    for name, value in _HEADERS.items()
                    if name.lower().encode() not in known
                )]  # fmt: skip
            await send(message)

        app = self._app
        if self._is_local and not _is_local_name(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
            app = PlainTextResponse("ask for localhost; another name is served only with tokens\n", 421)
        await app(scope, receive, guarded)


def _is_local_name(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name.lower() in _LOCAL


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request to the pages."""

    viewer: Viewer
    query: Mapping[str, str]
    path: Mapping[str, str]
    form: Mapping[str, list[str]]
    cookie: str | None


class _Pages:
    def __init__(
        self,
        store: Store,
        sessions: Sessions,
        templates: Environment,
        *,
        asks: bool,
        is_secure: bool,
        trace_url: str | None,
        proxy: Proxy | None,
        grades: GradePages,
    ) -> None:
        self._proxy, self._grades = proxy, grades
        self._store, self._sessions, self._templates = store, sessions, templates
        self._asks, self._is_secure, self._trace_url = asks, is_secure, trace_url

    # how a page is answered

    def route(
        self,
        show: Callable[[_Asked], Response],
        *,
        is_open: bool = False,
        writes: bool = False,
        reads_form: bool = False,
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint: it finds out who asks, and answers from a thread.

        is_open: for whoever comes; writes: only for a form of this viewer's own session.
        """
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import RedirectResponse

        async def answer(request: Request) -> Response:
            cookie = request.cookies.get(COOKIE)
            viewer = self._viewer(request)
            if viewer is None and not is_open:
                if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
                    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                    return RedirectResponse(f"/signin?{query_part({'next': wanted})}", 303)
                refused = self._shown("problem.html", None, 401, title="Sign in", text="Send your token.")
                refused.headers["WWW-Authenticate"] = "Bearer"
                return refused
            new = None
            if not cookie and viewer is not None and viewer.may_judge and (viewer.is_proxied or not self._asks):
                new = self._sessions.begin(None)  # by which its forms are known
            try:
                form = await self._form(request) if writes or reads_form else {}
                asked = _Asked(viewer or Viewer(""), request.query_params, request.path_params, form, cookie or new)
                if writes or reads_form:
                    _check_site(request)
                if writes:
                    self._check_form(asked)
                response = await run_in_threadpool(self._answered, show, asked)
            except _Refused as refused:
                response = self._refusal(refused, viewer)
            if new is not None:
                self._set_cookie(response, new)
            if _is_secure(request) and "set-cookie" in response.headers:
                response.headers["set-cookie"] = _secured(response.headers["set-cookie"])
            return response

        return answer

    def _viewer(self, request: Request) -> Viewer | None:
        """Who asks."""
        named = None
        if self._proxy is not None:
            peer = request.client.host if request.client else None
            named = self._proxy.named(peer, request.headers.getlist(self._proxy.header))
        return self._sessions.viewer(request.headers.get("authorization"), request.cookies.get(COOKIE), named)

    def _answered(self, show: Callable[[_Asked], Response], asked: _Asked) -> Response:
        try:
            return show(asked)
        except ConfigurationError as error:
            return self._refusal(_Refused(400, "This cannot be shown", str(error)), asked.viewer)
        except (CorruptStore, RecordError) as error:
            _LOG.warning("a page could not be made: %s", error)
            return self._refusal(_DAMAGED(), asked.viewer)
        except RagtraceError as error:
            _LOG.warning("a page could not be made: %s", error)
            return self._refusal(_Refused(503, "The store does not answer", "Try again in a minute."), asked.viewer)

    def _refusal(self, refused: _Refused, viewer: Viewer | None) -> Response:
        return self._shown("problem.html", viewer, refused.status, title=refused.title, text=refused.text)

    async def _form(self, request: Request) -> dict[str, list[str]]:
        """The fields of a form, of bounded size."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _FORM:
                raise _Refused(413, "This is too long", f"A form holds at most {_FORM} bytes.")
        try:
            return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=500)
        except ValueError:
            raise _Refused(400, "This is no form", "Send it from the page.") from None

    def _check_form(self, asked: _Asked) -> None:
        """Only this viewer's own page may send it, and only who may judge."""
        if not self._sessions.is_own(asked.cookie, next(iter(asked.form.get("form_token", ())), "")):
            raise _FOREIGN()
        if not asked.viewer.may_judge:
            raise _READER()

    def _shown(
        self,
        template: str,
        viewer: Viewer | None,
        status: int = 200,
        /,
        *,
        about: str | None = None,
        **values: Any,
    ) -> Response:
        """about: the service that the page is about, which its links go on with."""
        from starlette.responses import HTMLResponse

        links = _links(viewer, about)
        text = self._templates.get_template(template).render(viewer=viewer, asks=self._asks, links=links, **values)
        return HTMLResponse(text, status)

    def _set_cookie(self, response: Response, value: str) -> None:
        response.set_cookie(COOKIE, value, httponly=True, samesite="lax", secure=self._is_secure, path="/")

    # pages

    def overview(self, asked: _Asked) -> Response:
        """One service, or the list of them where there are several."""
        viewer, chosen = asked.viewer, asked.query.get("service")
        services = self._services(viewer)
        if chosen is not None and chosen not in services:
            raise _UNKNOWN("No service of this name has requests.")
        window = asked.query.get("window", "24h")
        if window not in WINDOWS:
            raise ConfigurationError.of("window", window, ", ".join(WINDOWS))
        if chosen is None and len(services) != 1:
            lines = service_lines(self._store, services, viewer.tenant)
            return self._shown("services.html", viewer, lines=lines)
        service = services[0] if chosen is None else chosen
        shown = overview(self._store, service, window, viewer)
        if shown is None:
            raise _UNKNOWN("No service of this name has requests.")
        return self._shown(
            "overview.html",
            viewer,
            about=service,
            shown=shown,
            services=services,
            windows=list(WINDOWS),
            counted=COUNTED,
        )

    def requests(self, asked: _Asked) -> Response:
        """The list."""
        viewer = asked.viewer
        services = self._services(viewer)
        listing, before = read_filter(asked.query, viewer)
        if listing.search is not None and not viewer.sees_content:
            raise _NUMBERS()
        can_search = viewer.sees_content and self._store.can_search()
        if listing.search is not None and not can_search:
            raise ConfigurationError("search is off in this store; ragtrace db search on makes its index")
        if viewer.tenant is not None and listing.service is None and listing.search is None and services:
            listing = dataclasses.replace(listing, service=services[0])  # a tenant's index is by service
        page = rows_page(self._store, listing, before, viewer, asked.query)
        if viewer.sees_content and page.rows:
            ids = ", ".join(row.request.request_id for row in page.rows)
            self._read(viewer, f"first words of requests {ids}")
        return self._shown(
            "requests.html",
            viewer,
            about=listing.service if listing.service in services else services[0] if len(services) == 1 else None,
            page=page,
            services=services,
            filter=listing,
            choices=CHOICES,
            query=asked.query,
            can_search=can_search,
        )

    def request(self, asked: _Asked) -> Response:
        """One request; the beginning of an id leads to the only one that begins so."""
        from starlette.responses import RedirectResponse

        viewer = asked.viewer
        try:
            record, analysis = self._found(asked)
        except _Refused:
            if (whole := self._only_id(asked.path["request_id"], viewer)) is None:
                raise
            return RedirectResponse(f"/requests/{path_part(whole)}", 303)
        explained = self._store.get_analysis(record.request_id, ATTRIBUTION)
        explanation = explained.explanation if explained else None
        if explanation is not None and explanation.is_utility_alone:
            explanation = None
        if analysis is not None and explanation is not None:
            from ragtrace.analyze.alignment import resting_on

            analysis = replace(analysis, claims=resting_on(analysis.claims, explanation.generator))
        view = request_view(record, analysis, self._lost_texts(viewer, record, analysis))
        if viewer.sees_content:
            self._read(viewer, f"the content of request {record.request_id}")
        labels = self._store.labels(request_ids=[record.request_id])
        return self._shown(
            "request.html",
            viewer,
            about=record.service,
            view=view,
            request_id=record.request_id,
            path=path_picture(view) if viewer.sees_content else None,
            times=times_picture(view.record) if view.record.stages else None,
            labels=labels,
            grades=self._grades.view(record, analysis),
            trace_link=self._trace_link(record),
            asked_stages=asked_stages(record, analysis),
            said=SAID,
            own=next((one for one in labels if one.labeler == viewer.name), None),
            explanation=_explained(record, explanation) if viewer.sees_content and explanation else None,
            explaining=explanation_state(self._store, record.request_id) if explanation is None else None,
            asking_cost=asking_cost(record) if explanation is None and viewer.may_judge else "",
            form_token=self._sessions.form_token(asked.cookie),
            may_set_gold=viewer.owns(record.service),
            note=KEPT.get(asked.query.get("kept", ""), ""),
        )

    def grade(self, asked: _Asked) -> Response:
        """Why one chunk got its grade."""
        record, _ = self._found(asked)
        if not asked.viewer.sees_content:
            raise _NUMBERS()
        chunk_id = asked.query.get("chunk", "")
        self._read(asked.viewer, f"why chunk {chunk_id} of request {record.request_id} has its grade")
        shown = self._grades.explained(record, chunk_id)
        return self._shown(
            "grade.html",
            asked.viewer,
            about=record.service,
            request_id=record.request_id,
            chunk_id=chunk_id,
            shown=shown,
        )

    def explain(self, asked: _Asked) -> Response:
        """Ask for an explanation, and go where its progress is shown."""
        from starlette.responses import RedirectResponse

        record, _ = self._found(asked)
        ask_for_explanation(self._store, record.request_id)
        self._read(asked.viewer, f"(asked to explain) request {record.request_id}")
        return RedirectResponse(f"/explanations/{path_part(record.request_id)}", 303)

    def progress(self, asked: _Asked) -> Response:
        """How far an explanation is; when it is there, its request. It is asked again and again, and reads no texts."""
        from starlette.responses import RedirectResponse

        request_id, viewer = asked.path["request_id"], asked.viewer
        tenants = self._store.tenants([request_id])
        if request_id not in tenants or viewer.tenant not in (None, tenants[request_id]):
            raise _NOT_YOURS()
        state = explanation_state(self._store, request_id)
        if state.step == "none":
            return RedirectResponse(f"/requests/{path_part(request_id)}#explained", 303)
        form_token = self._sessions.form_token(asked.cookie)
        return self._shown(
            "progress.html", viewer, request_id=request_id, state=state, form_token=form_token, asking_cost=""
        )

    def label(self, asked: _Asked) -> Response:
        """Keep what somebody says of a request."""
        from starlette.responses import RedirectResponse

        record, analysis = self._found(asked)
        kept = label_request(self._store, asked.viewer, record, analysis, asked.form)
        self._read(asked.viewer, f"(labeled) request {record.request_id}")
        where = f"/requests/{path_part(record.request_id)}?{query_part({'kept': kept})}#judge"
        if asked.form.get("flow"):
            where = f"/label?{query_part({'service': record.service, 'after': record.request_id, 'kept': kept})}"
        return RedirectResponse(where, 303)

    def label_next(self, asked: _Asked) -> Response:
        """The next request of a drawing, without what was found out about it."""
        viewer = asked.viewer
        if not viewer.may_judge:
            raise _READER()
        service = self._whole_service(asked)
        queue = label_queue(self._store, viewer, service, asked.query.get("after", ""))
        record = self._store.get_record(queue.next_id) if queue and queue.next_id else None
        analysis = self._store.get_analysis(record.request_id) if record else None
        if record is not None:
            self._read(viewer, f"the content of request {record.request_id}")
        return self._shown(
            "label.html",
            viewer,
            about=service,
            service=service,
            queue=queue,
            view=request_view(record, None) if record else None,
            asked_stages=asked_stages(record, analysis) if record else (),
            said=SAID,
            form_token=self._sessions.form_token(asked.cookie),
            note=KEPT.get(asked.query.get("kept", ""), ""),
        )

    def test_case(self, asked: _Asked) -> Response:
        """The line that asks this question again, to save into a file of questions."""
        from starlette.responses import Response

        if not asked.viewer.sees_content:
            raise _NUMBERS()
        record, analysis = self._found(asked)
        if not record.query.original.strip():
            raise _Refused(400, "This question was not kept", "Without its words it cannot be asked again.")
        self._read(asked.viewer, f"the test case of request {record.request_id}")
        return Response(
            test_case(self._store, asked.viewer, record, analysis),
            media_type="application/jsonl",
            headers={"Content-Disposition": 'attachment; filename="questions.jsonl"'},
        )

    def triage(self, asked: _Asked) -> Response:
        """The walk over a segment, in the words of the terminal."""
        viewer, query = asked.viewer, asked.query
        own = [name for name in self._services(viewer) if viewer.owns(name)]
        if not query.get("service") and len(own) != 1:
            return self._shown("triage_choice.html", viewer, services=own)
        service = self._whole_service(asked) if query.get("service") else own[0]
        shown = triage_view(self._store, service, query)
        return self._shown(
            "triage.html",
            viewer,
            about=service,
            shown=shown,
            report=shown.report,
            form_token=self._sessions.form_token(asked.cookie),
            note=KEPT.get(query.get("kept", ""), ""),
        )

    def postmortem(self, asked: _Asked) -> Response:
        """The draft of a window's postmortem, as Markdown to save; it names requests, and holds words of them."""
        from starlette.responses import Response

        viewer = asked.viewer
        if not viewer.sees_content:
            raise _NUMBERS()
        service = self._whole_service(asked)
        text = visible(postmortem_draft(self._store, service, asked.query)[:_DRAFT])
        self._read(viewer, f"the postmortem of {service}")
        return Response(
            text,
            media_type="text/markdown",
            headers={"Content-Disposition": 'attachment; filename="postmortem.md"'},
        )

    def runbook(self, asked: _Asked) -> Response:
        """What to do about an alert, by its runbook; without a name all of them."""
        name, viewer = asked.path["name"].removesuffix(".md"), asked.viewer
        blocks = runbook(name) if name else None
        if name and blocks is None:
            raise _UNKNOWN("No runbook has this name.")
        service = asked.query.get("service", "")
        about = service if service in self._services(viewer) and viewer.owns(service) else None
        kept = {key: value for key in ("service", "segment", "since", "until") if (value := asked.query.get(key))}
        return self._shown(
            "runbook.html",
            viewer,
            about=about,
            name=name,
            blocks=blocks,
            names=runbook_names(),
            stage=name if name in STAGE_NAMES else None,
            kept=kept if about else {},
        )

    def judge_alert(self, asked: _Asked) -> Response:
        """Keep whether a page was right."""
        from starlette.responses import RedirectResponse

        kept = judge_page(self._store, asked.viewer, asked.form)
        fields = {name: next(iter(asked.form.get(name, ())), "") for name in ("service", "segment", "since", "until")}
        known = {name: value for name, value in fields.items() if value}
        return RedirectResponse(f"/triage?{query_part(known | {'kept': kept})}#judge", 303)

    def sign_in_form(self, asked: _Asked) -> Response:
        """Asks for the token."""
        return self._shown("signin.html", None, next=_own_path(asked.query.get("next")), is_wrong=False)

    def sign_in(self, asked: _Asked) -> Response:
        """Begin a session."""
        from starlette.responses import RedirectResponse

        token = next(iter(asked.form.get("token", ())), "").strip()
        where = _own_path(next(iter(asked.form.get("next", ())), None))
        cookie = self._sessions.begin(token) if token else None
        if cookie is None:
            _READING.warning("a wrong token was given")
            return self._shown("signin.html", None, 401, next=where, is_wrong=True)
        response = RedirectResponse(where, 303)
        self._set_cookie(response, cookie)
        return response

    def sign_out(self, asked: _Asked) -> Response:
        """End the session; whoever has none is where it would lead."""
        from starlette.responses import RedirectResponse

        self._sessions.end(asked.cookie)
        response = RedirectResponse("/signin" if self._asks else "/", 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=self._is_secure)
        return response

    def gate(self, asked: _Asked) -> Response:
        """The runs of the gate, and the replays."""
        return self._shown("gate.html", asked.viewer, found=gate_list(self._store, asked.viewer))

    def gate_run(self, asked: _Asked) -> Response:
        """One run."""
        run_id = asked.path["run_id"]
        found = gate_report(self._store, asked.viewer, run_id)
        if found is None:
            raise _UNKNOWN("No run has this id, or it is not yours to see.")
        if found.questions:
            self._read(asked.viewer, f"{found.questions} questions of the gate run {run_id}")
        title = f"Gate run {run_id}"
        return self._shown("gate_report.html", asked.viewer, about=found.service, body=found.body, title=title)

    def compare(self, asked: _Asked) -> Response:
        """Two replays question by question."""
        found = comparing(self._store, asked.viewer, asked.query)
        if found is None:
            raise _UNKNOWN("There is no such replay, or it is not yours to see.")
        names = f"{asked.query['a']} and {asked.query['b']}"
        if found.questions:
            self._read(asked.viewer, f"{found.questions} questions of the replays {names}")
        title = f"Compared: {names}"
        return self._shown("gate_report.html", asked.viewer, about=found.service, body=found.body, title=title)

    # the rest

    async def static(self, request: Request) -> Response:
        """The style sheet and the scripts: the same for everybody."""
        from starlette.responses import PlainTextResponse, Response

        known = _assets().get(request.path_params["name"])
        if known is None:
            return PlainTextResponse("there is no such file\n", 404)
        kind, text = known
        return Response(text, headers={"Content-Type": f"{kind}; charset=utf-8", "Cache-Control": "max-age=300"})

    async def health(self, request: Request) -> Response:
        """Whether the process lives."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse("ok\n")

    async def not_found(self, request: Request, error: Exception) -> Response:
        """No such route, or no such method of it."""
        status = getattr(error, "status_code", 404)
        viewer = self._viewer(request)
        return self._refusal(_Refused(status, "There is no such page", "Start at the overview."), viewer)

    def _services(self, viewer: Viewer) -> list[str]:
        return self._store.services() if viewer.tenant is None else self._store.services_of(viewer.tenant)

    def _whole_service(self, asked: _Asked) -> str:
        """The service that the address names, all of whose requests are the viewer's."""
        service = asked.query.get("service", "")
        if service not in self._services(asked.viewer) or not asked.viewer.owns(service):
            raise _UNKNOWN("There is no such service, or its requests are not all yours to see.")
        return service

    def _only_id(self, beginning: str, viewer: Viewer) -> str | None:
        """The only id of the viewer's that begins so; None where none does, several do, or it is too short to tell."""
        if len(beginning) < _SHORTEST:
            return None
        found = self._store.find_request_ids(beginning, _BEGINNINGS)
        if beginning in found or len(found) == _BEGINNINGS:
            return None
        tenants = self._store.tenants(found)
        own = [one for one in found if viewer.tenant in (None, tenants.get(one))]
        return own[0] if len(own) == 1 else None

    def _found(self, asked: _Asked) -> tuple[RequestRecord, Analysis | None]:
        """The request that the address names; another tenant's is as one that does not exist."""
        record = self._store.get_record(asked.path["request_id"])
        if record is None or asked.viewer.tenant not in (None, record.tenant_id):
            raise _NOT_YOURS()
        return record, self._store.get_analysis(record.request_id)

    def _lost_texts(
        self, viewer: Viewer, record: RequestRecord, analysis: Analysis | None
    ) -> dict[str, tuple[str, str]]:
        """What the chunks hold that were needed and not retrieved, as other requests of the service got them; only for
        who may see all of these."""
        lost = [one.chunk_id for one in analysis.lost if one.where == "retrieval"] if analysis else []
        if not (lost and viewer.sees_content and viewer.owns(record.service)):
            return {}
        return self._store.chunk_texts(record.service, lost)

    def _trace_link(self, record: RequestRecord) -> str | None:
        """Where this request's trace is shown, as configured."""
        if not (self._trace_url and record.trace_id):
            return None
        place = "{trace_id}"
        address = self._trace_url if place in self._trace_url else self._trace_url + place
        return address.replace(place, path_part(record.trace_id))

    def _read(self, viewer: Viewer, what: str) -> None:
        """Write down who saw what."""
        of = "all tenants" if viewer.tenant is None else f"tenant {viewer.tenant}"
        _READING.info("%s (%s) read %s", viewer.name, of, visible(what[:LONGEST]).replace("\n", " "))


def _links(viewer: Viewer | None, about: str | None) -> list[tuple[str, str, str]]:
    """The pages that each page leads to: name, address, words. about: the service that they go on with."""
    if viewer is None:
        return []
    of = "" if about is None else f"?{query_part({'service': about})}"
    found = [("overview", f"/{of}", "Overview"), ("requests", f"/requests{of}", "Requests")]
    if about is None or viewer.owns(about):
        found.append(("triage", f"/triage{of}", "Triage"))
    found.append(("gate", "/gate", "Gate"))
    if about is not None and viewer.may_judge and viewer.owns(about):
        found.append(("label", f"/label{of}", "Label"))
    return found


def _explained(record: RequestRecord, explanation: Explanation) -> tuple[Html, Html]:
    """The sections of the explanation, and the figures that its script reads."""
    from ragtrace.export.explanation_html import sections

    return sections(bounded(record)[0], explanation)


def _check_site(request: Request) -> None:
    """A form comes from a page of this address. Raises: _Refused."""
    site, origin = request.headers.get("sec-fetch-site", "same-origin"), request.headers.get("origin")
    is_other = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
    if site not in ("same-origin", "none") or is_other:
        raise _FOREIGN()


def _is_secure(request: Request) -> bool:
    """Whether it came over TLS, as far as the last proxy says."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").partition(",")[0].strip())


def _secured(cookie: str) -> str:
    """Also behind a proxy that ends TLS and says so: over nothing else."""
    return cookie if "; Secure" in cookie else f"{cookie}; Secure"


def _own_path(path: str | None) -> str:
    """A path of these pages; anything else is the overview."""
    if path is None or not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return "/"
    return path


@cache
def _assets() -> dict[str, tuple[str, str]]:
    folder = resources.files("ragtrace.export").joinpath("page")
    own = resources.files("ragtrace.web").joinpath("page")
    return {
        "icon.svg": ("image/svg+xml", _ICON),
        "web.css": ("text/css", stylesheet()),
        "label.js": ("text/javascript", own.joinpath("label.js").read_text("utf-8")),
        "progress.js": ("text/javascript", own.joinpath("progress.js").read_text("utf-8")),
        "gate.css": ("text/css", asset("ragtrace.gate.reports", "gate.css")),
        "explanation.js": ("text/javascript", folder.joinpath("explanation.js").read_text("utf-8")),
    }


def _environment() -> Environment:
    """The pages' templates; of one value they show no more than of one text."""
    environment = templates("ragtrace.web")
    shown = environment.finalize
    environment.finalize = lambda value: shown(_cut(value)) if shown else value
    environment.filters |= {
        "time": _time,
        "clock": _clock,
        "moment": _moment,
        "span_to": _span,
        "percent": lambda share: f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}",
        "rank": shown_rank,
        "release": release_words,
        "address": path_part,
        "query": query_part,
        "linked": linked,
        "merged": lambda known, more: known | more,
        "milliseconds": lambda nanoseconds: f"{nanoseconds / 1e6:,.0f} ms",
        "html": Html,
    }
    return environment


def _cut(value: object) -> object:
    """A name of five megabytes is not read either."""
    if isinstance(value, str) and len(value) > LONGEST and not hasattr(value, "__html__"):
        return f"{value[:LONGEST]}…"
    return value


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _clock(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%m-%d %H:%M:%S")


def _moment(nanoseconds: int) -> str:
    """As a filter takes it, to the millisecond."""
    at = datetime.fromtimestamp(nanoseconds // 10**6 / 1e3, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _span(since: int, until: int) -> str:
    """Two times of one day, or each with its day."""
    first, last = _clock(since), _clock(until)
    return f"{first[6:]} – {last[6:]}" if first[:5] == last[:5] else f"{first} – {last}"
