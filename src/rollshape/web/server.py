"""The local server of the page: read-only, on the loopback interface, for this machine's browser only.

A page of another site must not reach it: the Host header must name the loopback interface (a foreign name that resolves
to it is refused), an Origin must be the server's own, and calls with a body must be JSON, which other sites cannot send
without asking first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rollshape.errors import RollshapeError, RunError
from rollshape.geometry.values import parse_size
from rollshape.typed import parse_json
from rollshape.web import api, runs
from rollshape.web.folder import Folder
from rollshape.web.metrics import columns, new_rows

STATIC = Path(__file__).parent / "static"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_BODY = 2_000_000
MOST_REPORT = 100_000_000
POLL_SECONDS = 1.0
TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# The script of a report runs without an origin: it can neither load anything nor call this server.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:"
)

Handler = Callable[[HttpRequest], Awaitable[Response]]


def create_app(root: Path, port: int) -> Starlette:
    """Return the application that shows the runs under `root` on `http://127.0.0.1:port`."""
    folder = Folder(root)
    run_list = runs.RunList(folder)

    def reads(read: Callable[[HttpRequest], Any]) -> Handler:
        """Answer with the document of a function that reads files, in a thread."""

        async def handle(request: HttpRequest) -> Response:
            return await run_in_threadpool(_document, read, request)

        return handle

    def studies(name: str) -> Callable[[HttpRequest], Any]:
        def read(request: HttpRequest) -> Any:
            from rollshape.web import studies as module  # imports JAX: not before it is used

            return getattr(module, name)(folder, *(request.query_params.getlist("path")[:1]))

        return read

    def read_curves(request: HttpRequest) -> Any:
        query = request.query_params
        return runs.curves(folder, query.getlist("path"), tuple(query.getlist("metric")) or None)

    def read_difference(request: HttpRequest) -> Any:
        paths = request.query_params.getlist("path")
        return runs.difference(folder, paths[0] if paths else "", paths[1] if len(paths) > 1 else "")

    async def events(request: HttpRequest) -> Response:
        try:
            path = folder.path(_path(request))
        except RollshapeError as error:
            return _error(error)
        stream = _tail(path, request.is_disconnected)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    async def report(request: HttpRequest) -> Response:
        try:
            content = await run_in_threadpool(_read_report, folder, _path(request))
        except RollshapeError as error:
            return _error(error)
        return Response(content, media_type="text/html", headers=HEADERS | {"Content-Security-Policy": REPORT_POLICY})

    routes = [
        Route("/", _index),
        Route("/api/runs", reads(lambda _: run_list.document())),
        Route("/api/run", reads(lambda request: runs.details(folder, _path(request)))),
        Route("/api/diagnosis", reads(lambda request: runs.diagnose_run(folder, _path(request)))),
        Route("/api/curves", reads(read_curves)),
        Route("/api/difference", reads(read_difference)),
        Route("/api/events", events),
        Route("/api/studies", reads(studies("study_list"))),
        Route("/api/study", reads(studies("study_document"))),
        Route("/api/probes", reads(studies("probe_list"))),
        Route("/api/probe", reads(studies("probe_document"))),
        Route("/api/{name}", _call, methods=["GET", "POST"]),
        Route("/report", report),
        Route("/{name}", _static),
    ]
    app = Starlette(routes=routes)
    app.add_middleware(LocalOnly, port=port)
    return app


class LocalOnly:
    """Refuse requests that do not come from a page of this server: by Host, Origin and Sec-Fetch-Site."""

    def __init__(self, app: Any, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in LOOPBACK}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (problem := self._problem(HttpRequest(scope))):
            response = JSONResponse({"error": RunError("origin", problem).to_dict()}, 403, headers=HEADERS)
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _problem(self, request: HttpRequest) -> str:
        headers = request.headers
        if headers.get("host", "") not in self.hosts:
            return "This server answers requests to the loopback interface only."
        if "origin" in headers and headers["origin"] not in self.origins:
            return "Pages of other sites may not use this server."
        if headers.get("sec-fetch-site", "none") == "cross-site" and request.method != "GET":
            return "Pages of other sites may not use this server."
        if request.method == "POST" and headers.get("content-type", "").split(";")[0] != "application/json":
            return "A call must be application/json."
        return ""


def _document(read: Callable[[HttpRequest], Any], request: HttpRequest) -> Response:
    try:
        return JSONResponse(read(request), headers=HEADERS)
    except RollshapeError as error:
        return _error(error)
    except OSError as error:  # a file vanished while it was read
        return _error(RunError("file", f"A file cannot be read: {error.strerror}.", "Reload the page."))


def _error(error: RollshapeError) -> Response:
    return JSONResponse({"error": error.to_dict()}, 400, headers=HEADERS)


def _path(request: HttpRequest) -> str:
    return request.query_params.get("path", "")


async def _index(_: HttpRequest) -> Response:
    page = (STATIC / "index.html").read_text()
    page = page.replace('name="backend" content="worker"', 'name="backend" content="server"')
    return Response(page, media_type=TYPES[".html"], headers=HEADERS)


async def _static(request: HttpRequest) -> Response:
    name = request.path_params["name"]
    files = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}
    if name not in files or name == "index.html":
        return JSONResponse({"error": RunError("file", "There is no such page.").to_dict()}, 404, headers=HEADERS)
    return Response(files[name].read_bytes(), media_type=TYPES[files[name].suffix], headers=HEADERS)


async def _call(request: HttpRequest) -> Response:
    """Answer a call of `rollshape.web.api`: with a JSON body, or with a query as in /api/plan?num_envs=64."""
    body = b""
    if request.method == "POST":
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY:
                return _error(RunError("file", f"The request has more than {MOST_BODY:,} bytes.", "Give a config."))
    query = {name: _value(text) for name, text in request.query_params.items()}
    try:
        text = body.decode() if request.method == "POST" else json.dumps(query)
    except UnicodeDecodeError:
        return _error(RunError("argument", "The request is not UTF-8 text."))
    answer = await run_in_threadpool(api.answer, request.path_params["name"], text)
    status = 400 if answer.startswith('{"error":') else 200
    return Response(answer, status, media_type="application/json", headers=HEADERS)


def _value(text: str) -> Any:
    """Return a value of a query: a JSON value, a size such as 1e6 or 100M, or text."""
    try:
        return parse_size(text)
    except ValueError:
        pass
    try:
        return parse_json(text)
    except ValueError:
        return text


def _read_report(folder: Folder, name: str) -> bytes:
    path = folder.path(f"{name}/report.html")
    try:
        if path.stat().st_size > MOST_REPORT:
            raise RunError("file", f"The report has more than {MOST_REPORT:,} bytes.", "Open the file itself.")
        return path.read_bytes()
    except OSError:
        raise RunError("file", "There is no report yet.", f"Run rollshape report {name}.") from None


async def _tail(path: Path, is_disconnected: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Yield server-sent events with the rows that a run appends, from now on; the end when run.json vanishes."""
    file = path / "metrics.jsonl"
    try:
        offset = file.stat().st_size
    except OSError:
        offset = 0
    yield "retry: 3000\n\n"
    while not await is_disconnected():
        before = offset
        rows, offset = await run_in_threadpool(new_rows, file, offset)
        if offset < before:  # a resumed run removed its last rows
            yield "event: reset\ndata: {}\n\n"
        elif rows:
            yield f"event: rows\ndata: {json.dumps(columns(rows))}\n\n"
        else:
            yield ": waiting\n\n"
        status = await run_in_threadpool(lambda: runs.describe_run(path).get("status"))
        if status != "running":
            yield f"event: ended\ndata: {json.dumps({'status': status})}\n\n"
            return
        await asyncio.sleep(POLL_SECONDS)
