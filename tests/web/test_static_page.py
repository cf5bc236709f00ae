"""The static planner: Pyodide in a worker gives what the command line gives, quickly, offline and from one host."""

import json
import random
import statistics
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.web.browsing import Visit, browser, check_accessibility, needs_browser, pyodide, static_server, until, visit
from tests.web.commands import MACHINE, run_command, without_flags
from tests.web.random_calls import random_call

from rollshape.web.build import PYODIDE, build, bundle

PLAN = "#plan?num_envs=64&num_steps=32&total_timesteps=1000000"
ASK = """async (calls) => {
  const { call } = await import("./backend.js");
  return Promise.all(calls.map(([name, values]) => call(name, values)));
}"""


def test_the_bundle_has_only_pure_python_and_no_other_room() -> None:
    names = zipfile.ZipFile(BytesIO(bundle())).namelist()
    assert {name.split("/")[0] for name in names} == {"rollshape", "ruamel"}
    rooms = {name.split("/")[1] for name in names if name.startswith("rollshape/") and name.count("/") > 1}
    assert rooms == {"geometry", "web"}
    assert {Path(name).suffix for name in names} == {".py", ".json"}
    assert bundle() == bundle()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("static")
    build(folder, pyodide())
    assert not (folder / "runs.js").exists()
    with static_server(folder) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


def open_plan(visitor: Any) -> Any:
    page = visitor.open(PLAN)
    page.wait_for_selector(".stat", timeout=120_000)
    until(page, "document.getElementById('main').dataset.settled", 60)
    return page


@pytest.mark.slow
@needs_browser
def test_a_thousand_requests_give_the_documents_of_the_commands(chromium: Any, url: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    calls = [random_call(chance) for _ in range(1000)]
    with visit(chromium, url) as visitor:
        page = open_plan(visitor)
        for start in range(0, len(calls), 100):
            part = calls[start : start + 100]
            answers = page.evaluate(ASK, [[name, {**values, "machine": MACHINE}] for name, values in part])
            for (name, values), document in zip(part, answers, strict=True):
                expected = run_command(name, values, tmp_path)
                assert without_flags(document) == json.loads(json.dumps(expected)), (name, values)


@pytest.mark.slow
@needs_browser
def test_the_picture_follows_a_drag_within_50_ms(chromium: Any, url: str) -> None:
    """The median: single values also measure what else the machine does."""
    with visit(chromium, url) as visitor:
        page = open_plan(visitor)
        times = []
        for position in range(60):
            page.evaluate(
                "value => { const range = document.getElementById('slide-num_envs'); range.value = value;"
                " range.dispatchEvent(new Event('input')); }",
                5 + position % 20,
            )
            page.wait_for_timeout(40)
            times.append(float(page.evaluate("document.getElementById('main').dataset.latency")))
        print(f"input to picture: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms")
        assert statistics.median(times) < 50


@pytest.mark.slow
@needs_browser
def test_it_works_and_opens_again_without_its_server(chromium: Any, tmp_path: Path) -> None:
    build(tmp_path, pyodide())
    with static_server(tmp_path) as address:
        visitor = Visit(chromium, address)
        page = open_plan(visitor)
        until(page, "navigator.serviceWorker.ready.then(({ active }) => active?.state === 'activated')", 60)
    for num_envs, rollout_size in (("128", "4,096"), ("256", "8,192")):
        page.fill("#num_envs", num_envs)
        page.press("#num_envs", "Enter")
        until(page, f"document.querySelector('.stat strong').textContent === '{rollout_size}'")
        page.click("text=Your config")
        page.fill("#config-input", "n_envs: 8\nn_steps: 128\nbatch_size: 256\n")
        page.wait_for_selector("text=Recognized as Stable-Baselines3", timeout=20_000)
        assert page.locator("nav a").all_inner_texts() == ["Plan", "Your config"]
        page.goto(address + PLAN)  # the address differs after the # only
        page.reload()
        page.wait_for_selector(".stat", timeout=120_000)
    visitor.close()


def test_the_service_worker_changes_with_every_file(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in PYODIDE:
        (package / name).write_text("a")
    build(tmp_path / "one", package)
    (package / PYODIDE[0]).write_text("b")
    build(tmp_path / "two", package)
    one, two = ((tmp_path / name / "offline.js").read_text() for name in ("one", "two"))
    assert one != two
    assert one.splitlines()[1:] == two.splitlines()[1:]
    listed = json.loads(one.splitlines()[0].removeprefix("const BUILD = ").rstrip(";"))["files"]
    written = {
        path.relative_to(tmp_path / "one").as_posix() for path in (tmp_path / "one").rglob("*") if path.is_file()
    }
    assert set(listed) - {"./"} == written - {"offline.js"}


@pytest.mark.slow
@needs_browser
def test_the_static_page_has_no_serious_accessibility_violation(chromium: Any, url: str) -> None:
    with visit(chromium, url, bypass_csp=True) as visitor:
        assert check_accessibility(open_plan(visitor)) == []
