"""The report in a real browser: its script runs, its figures show, nothing is asked of any network."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.reports.test_report import HOSTILE, study_folder

from rollshape.reports.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr",
    "--virtual-time-budget=3000",
)  # fmt: skip
# Runs in the page: the size and the marks of every figure, and what the first switch does.
MEASURE = """
<script>
addEventListener("load", () => {
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const box = figure.querySelector("svg").getBoundingClientRect();
    return {name: figure.id, width: box.width, height: box.height, marks: figure.querySelectorAll("path, use").length};
  });
  const figure = document.querySelector("figure:has(input[data-series])");
  const first = figure.querySelector("input[data-series]");
  const series = figure.querySelector("g.series.s0");
  first.focus();
  const lit = series.classList.contains("lit");
  first.click();
  const found = {figures, lit, hidden: getComputedStyle(series).display,
                 title: figure.querySelector("g.series.s0 title").textContent,
                 wide: document.documentElement.scrollWidth - innerWidth,
                 answer: document.querySelector(".answer strong").getBoundingClientRect().top,
                 dark: getComputedStyle(document.body).backgroundColor};
  const told = document.createElement("script");
  told.type = "application/json"; told.id = "measured"; told.textContent = JSON.stringify(found);
  document.body.append(told);
});
</script></body>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian: apt install chromium)")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browsed")
    study_folder(path, claim=HOSTILE)
    write_report(path)
    text = (path / "report.html").read_text()
    (path / "measured.html").write_text(text.replace("</body>", MEASURE))
    return path


def opened(report: Path, name: str, *flags: str) -> tuple[dict[str, Any], str, list[str]]:
    """(what the page measured of itself, what the browser logged, addresses that it asked for)."""
    log = report / "net.json"
    command = [str(CHROMIUM), *FLAGS, *flags, f"--user-data-dir={report / 'profile'}", f"--log-net-log={log}",
               "--dump-dom", f"file://{report / name}"]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    measured = re.search(r'<script type="application/json" id="measured">(.*?)</script>', found.stdout, re.S)
    assert measured is not None, found.stderr
    asked = set(re.findall(r'"url":"([^"]+)"', log.read_text()))
    return json.loads(measured.group(1)), found.stderr, sorted(asked)


def test_it_opens_without_an_error_or_a_request(report: Path) -> None:
    found, logged, asked = opened(report, "measured.html", "--window-size=1200,900")
    assert "CONSOLE" not in logged
    assert [url for url in asked if url.startswith(("http", "ws")) and "google" not in url] == []
    assert {"finals-0", "curves-0-timesteps", "shapes-0", "terms-0", "surface-0"} <= {
        f["name"] for f in found["figures"]
    }
    for figure in found["figures"]:
        assert figure["width"] > 300, figure
        assert figure["height"] > 100, figure
        assert figure["marks"] > 10, figure
    assert found["answer"] < 500  # the conclusion is on the first screen
    assert found["lit"]
    assert found["hidden"] == "none"
    assert "seed 0" in found["title"]


def test_a_phone_does_not_scroll_sideways(report: Path) -> None:
    found, logged, _ = opened(report, "measured.html", "--window-size=500,800")  # as narrow as its window gets
    assert found["wide"] <= 0
    assert "CONSOLE" not in logged


def test_dark_and_light_differ(report: Path) -> None:
    light, dark = (
        opened(report, "measured.html", *flags)[0]["dark"]
        for flags in ((), ("--blink-settings=preferredColorScheme=0",))
    )
    assert light != dark


def test_an_error_in_the_page_would_be_seen(report: Path) -> None:
    """The check of the checks: a page that fails and one that asks for an address."""
    text = (report / "measured.html").read_text()
    faulty = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    broken = '<script>fetch("http://127.0.0.1:9/asked"); nothing.here</script></main>'
    (report / "faulty.html").write_text(faulty.replace("</main>", broken))
    _, logged, asked = opened(report, "faulty.html")
    assert "CONSOLE" in logged
    assert "http://127.0.0.1:9/asked" in asked
