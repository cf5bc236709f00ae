"""The server of `rollshape ui` in a thread, and requests with any headers."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from rollshape.web.server import create_app


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class LocalServer(NamedTuple):
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """Send exactly this path and these headers (underscores become hyphens)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Host" in fields:
            connection.putrequest(method, path, skip_host=True)
            for name, value in fields.items():
                connection.putheader(name, value)
            connection.endheaders(body)
        else:
            connection.request(method, path, body, fields)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return Answer(response.status, content, dict(response.getheaders()))

    def call(self, name: str, **values: Any) -> Any:
        body = json.dumps(values).encode()
        return self.ask(f"/api/{name}", "POST", body, Content_Type="application/json").json


@contextmanager
def served(root: Path) -> Iterator[LocalServer]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    port = listener.getsockname()[1]
    config = uvicorn.Config(create_app(root, port), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield LocalServer(port)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
