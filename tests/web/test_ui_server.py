"""The server shows what is in its folder, nothing else, and to nobody else."""

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.reports.runs import spec_of, write_run
from tests.web.serving import LocalServer, served

from rollshape.cli import main
from rollshape.web.folder import Folder
from rollshape.web.runs import RunList

HOSTILE_NAME = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "secret.txt").write_text("secret")
    shown = folder / "shown"
    write_run(shown / "a", spec_of(64), 300.0)
    write_run(shown / "deep" / "b", spec_of(8, seed=1), 100.0)
    write_run(shown / HOSTILE_NAME, spec_of(8, seed=2), 100.0)
    write_run(folder / "outside", spec_of(8), 100.0)
    (shown / "damaged").mkdir()
    (shown / "damaged" / "run.json").write_text("{")
    (shown / "changed").mkdir()
    document = json.loads((shown / "a" / "run.json").read_text()) | {"status": "running"}
    (shown / "changed" / "run.json").write_text(json.dumps(document))
    (shown / "link").symlink_to(folder / "outside")
    (shown / "link.json").symlink_to(folder / "secret.txt")
    return shown


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[LocalServer]:
    with served(root) as local:
        yield local


def test_the_list_has_every_run_and_says_which_cannot_be_read(server: LocalServer) -> None:
    runs = {run["path"]: run for run in server.ask("/api/runs").json["runs"]}
    assert set(runs) == {"a", "deep/b", HOSTILE_NAME, "damaged", "changed"}  # links are not followed
    assert (runs["a"]["num_envs"], runs["a"]["num_steps"], runs["a"]["status"]) == (64, 32, "done")
    assert runs["a"]["return"] is not None
    assert runs["a"]["final_return"] is not None
    assert "not JSON" in runs["damaged"]["reason"]
    assert "changed after it was written" in runs["changed"]["reason"]


def test_curves_of_a_selection(server: LocalServer) -> None:
    answer = server.ask("/api/curves?path=a&path=deep/b&metric=eval_return").json["runs"]
    assert set(answer) == {"a", "deep/b"}
    columns = answer["a"]["columns"]
    assert set(columns) == {"update", "timesteps", "wall_time", "eval_return"} & set(columns)
    assert len(columns["eval_return"]) == len(columns["timesteps"]) > 5


def test_details_diagnosis_and_difference(server: LocalServer) -> None:
    assert server.ask("/api/run?path=a").json["spec"]["num_envs"] == 64
    assert server.ask("/api/diagnosis?path=a").json["verdict"]
    pairs = server.ask("/api/difference?path=a&path=deep/b").json["differences"]
    assert pairs["num_envs"] == [64, 8]
    assert pairs["seed"] == [0, 1]
    assert "planned num_envs" not in pairs  # as requested
    assert pairs["planned num_steps"] == [32, 256]


def test_a_query_is_read_as_on_the_command_line(server: LocalServer, capsys: pytest.CaptureFixture[str]) -> None:
    document = server.ask("/api/plan?num_envs=64&total_timesteps=1M&recurrent=true&obs_shape=[84,84,4]").json
    main(
        ["plan", "--num-envs", "64", "--total-timesteps", "1M", "--recurrent", "--obs-shape", "84", "84", "4", "--json"]
    )
    assert document == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("route", ["run", "curves", "diagnosis", "events", "study", "probe", "difference"])
@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "../outside", "/etc/passwd", "link", "link.json", "a/../../outside", "%00", "x" * 5000, "....//"],
)
def test_nothing_outside_of_the_folder_is_read(server: LocalServer, route: str, path: str) -> None:
    answer = server.ask(f"/api/{route}?path={quote(path, safe='%')}&path={quote(path, safe='%')}")
    assert b"secret" not in answer.body.replace(path.encode(), b"")
    if path not in ("x" * 5000, "....//") and route != "events":
        assert answer.status == 400
        assert "outside of the folder" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/static/../api.py", "/api.py", "/index.html",
             "/report?path=..", "/report?path=a"],
)  # fmt: skip
def test_only_the_files_of_the_page_are_served(server: LocalServer, path: str) -> None:
    assert server.ask(path).status in (400, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Host": "127.0.0.1:1"}, {"Host": ""},
        {"Host": "localhost.evil.example:{port}"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
    ],
    ids=str,
)  # fmt: skip
def test_other_sites_are_refused(server: LocalServer, headers: dict[str, str]) -> None:
    fields = {name: value.replace("{port}", str(server.port)) for name, value in headers.items()}
    for path in ("/", "/api/runs", "/api/plan"):
        answer = server.ask(path, **fields)
        assert answer.status == 403
        assert answer.json["error"]["rule"] == "origin"


def test_a_call_without_json_is_refused(server: LocalServer) -> None:
    """Another site's form can only send other types without asking first."""
    assert server.ask("/api/plan", "POST", b"{}", Content_Type="text/plain").status == 403
    assert server.ask("/api/plan", "POST", b"{}", Content_Type="application/json").status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(server: LocalServer, method: str) -> None:
    assert server.ask("/api/plan", method, b"{}", Content_Type="application/json").status == 405
    assert server.ask("/", method).status == 405


def test_large_and_broken_bodies_end_in_a_message(server: LocalServer) -> None:
    for body in (b"x" * 3_000_000, b"\xff\xfe", b"[" * 100_000, b""):
        answer = server.ask("/api/config", "POST", body, Content_Type="application/json")
        assert answer.status == 400
        assert answer.json["error"]["message"]


def test_pages_may_not_be_framed_or_sniffed(server: LocalServer) -> None:
    headers = server.ask("/").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert b'content="server"' in server.ask("/").body


def test_rows_arrive_while_a_run_writes(tmp_path: Path) -> None:
    write_run(tmp_path / "live", spec_of(64), 300.0, status="running")
    metrics = tmp_path / "live" / "metrics.jsonl"
    row = json.loads(metrics.read_text().splitlines()[-1])
    with served(tmp_path) as local, socket.create_connection(("127.0.0.1", local.port), timeout=20) as stream:
        stream.sendall(f"GET /api/events?path=live HTTP/1.1\r\nHost: 127.0.0.1:{local.port}\r\n\r\n".encode())
        received = stream.recv(65_536)
        time.sleep(0.2)
        row |= {"update": row["update"] + 1, "timesteps": row["timesteps"] + 2048}
        with metrics.open("a") as file:
            file.write(json.dumps(row) + "\n" + '{"update": 5')  # and the beginning of another row
        while b"event: rows" not in received:
            received += stream.recv(65_536)
        assert f'"update": [{row["update"]}]'.encode() in received
        (tmp_path / "live" / "run.json").unlink()
        while b"event: ended" not in received:
            received += stream.recv(65_536)


def test_a_thousand_runs_are_listed_quickly(tmp_path: Path) -> None:
    write_run(tmp_path / "run0", spec_of(64), 300.0)
    document, metrics = ((tmp_path / "run0" / name).read_bytes() for name in ("run.json", "metrics.jsonl"))
    for i in range(1, 1000):
        folder = tmp_path / f"run{i}"
        folder.mkdir()
        (folder / "run.json").write_bytes(document)
        (folder / "metrics.jsonl").write_bytes(metrics)
    runs = RunList(Folder(tmp_path))
    start = time.process_time()
    assert len(runs.document()["runs"]) == 1000
    first, start = time.process_time() - start, time.process_time()
    runs.document()
    again = time.process_time() - start
    assert first < 0.8  # 0.25 s on an idle machine
    assert again < 0.3


def test_a_run_that_changes_is_read_again(tmp_path: Path) -> None:
    write_run(tmp_path / "run", spec_of(64), 300.0, status="running")
    runs = RunList(Folder(tmp_path))
    before = runs.document()["runs"][0]
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]) | {"timesteps": 10**9}
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    assert runs.document()["runs"][0]["timesteps"] == 10**9 != before["timesteps"]
    os.unlink(tmp_path / "run" / "run.json")
    assert runs.document()["runs"][0]["status"] == "unreadable"


def test_ui_refuses_what_it_cannot_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", str(tmp_path / "missing"), "--no-browser"]) == 2
    assert main(["ui", str(tmp_path), "--port", "99999", "--no-browser"]) == 2
    assert main(["ui", str(tmp_path), "b", "--no-browser"]) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["ui", str(tmp_path), "--port", str(taken.getsockname()[1]), "--no-browser"]) == 2
    assert "is in use" in capsys.readouterr().err
