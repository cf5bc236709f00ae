"""The system's Chromium, driven by Playwright, and packages from npm for tests only."""

import functools
import http.server
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine (Debian: apt install chromium)"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-dev-shm-usage"]  # fmt: skip


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


class Visit:
    """A page with everything that went wrong on it: messages of the console, and requests to other hosts."""

    def __init__(self, chromium: Any, url: str, **options: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = chromium.new_context(**options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url.rstrip("/"))
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self._check(request.url, url))
        self.url = url

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _check(self, requested: str, url: str) -> None:
        if not requested.startswith((url, "data:", "blob:")):
            self.foreign.append(requested)

    def open(self, view: str) -> Any:
        self.page.goto(self.url + view)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.problems == []
        assert self.foreign == []


@contextmanager
def visit(chromium: Any, url: str, **options: Any) -> Iterator[Visit]:
    """A visit whose console must stay empty, and which must not ask any other host."""
    visitor = Visit(chromium, url, **options)
    yield visitor
    visitor.close()


def until(page: Any, expression: str, seconds: float = 20.0) -> None:
    """Wait until an expression is true; Playwright's own way needs eval, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}\n{page.inner_text('main')[:2000]}"
        page.wait_for_timeout(20)


def npm_package(name: str) -> Path:
    """The unpacked npm package, in the ignored build folder; the test is skipped without npm or a registry."""
    folder = ROOT / "build" / "npm" / name.partition("@")[0]
    if (folder / "package").is_dir():
        return folder / "package"
    if shutil.which("npm") is None:
        pytest.skip("no npm on this machine (Debian: apt install npm)")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", "pack", "--silent", name], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm could not download {name}: {done.stderr[-300:]}")
    subprocess.run(["tar", "xzf", done.stdout.split()[-1]], cwd=folder, check=True)
    return folder / "package"


def pyodide() -> Path:
    """Pyodide, at the version of the Makefile."""
    [version] = [
        line.split()[-1] for line in (ROOT / "Makefile").read_text().splitlines() if "PYODIDE_VERSION :=" in line
    ]
    built = ROOT / "build" / "pyodide" / "package"
    return built if (built / "pyodide.mjs").is_file() else npm_package(f"pyodide@{version}")


class _Files(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path: Any) -> str:
        types = {".mjs": "text/javascript", ".wasm": "application/wasm"}
        return types.get(Path(path).suffix) or super().guess_type(path)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def static_server(folder: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def check_accessibility(page: Any) -> list[str]:
    """Serious and critical violations that axe-core finds."""
    page.add_script_tag(path=str(npm_package("axe-core@4.14.0") / "axe.min.js"))
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{item['id']}: {item['nodes'][0]['html'][:160]} {item['nodes'][0].get('failureSummary', '')[:200]}"
        for item in result["violations"]
        if item["impact"] in ("serious", "critical")
    ]
