"""The page in a real browser, served by `rollshape ui`: mouse, keyboard, clipboard, widths, themes, hostile names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reports.runs import spec_of, write_run
from tests.reports.test_report import HOSTILE, study_folder
from tests.web.browsing import browser, check_accessibility, needs_browser, until, visit
from tests.web.serving import LocalServer, served

pytestmark = needs_browser
NAME = "<img src=x onerror=alert(1)>"
PLAN = "#plan?num_envs=64&num_steps=32&total_timesteps=1000000"
# What must be visible as a whole, without scrolling sideways.
CUT = """() => {
  const isCut = (box) => box.scrollWidth > box.clientWidth + 1;
  const parts = [...document.querySelectorAll(".shape-grid, .run-table table, .chart-box, .flow, .command pre")];
  return parts.filter((part) => isCut(part) || isCut(part.parentElement)).map((part) => part.className || part.tagName);
}"""
VIEWS = ["#plan", "#config", "#runs", "#studies", "#probes"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    root = tmp_path_factory.mktemp("shown")
    write_run(root / "runs" / "one", spec_of(64), 300.0)
    write_run(root / "runs" / "two", spec_of(8, seed=1), 100.0)
    write_run(root / "runs" / NAME, spec_of(8, seed=2), 100.0)
    write_run(root / "runs" / "live", spec_of(8, seed=3), 100.0, status="running")
    study_folder(root / "study", claim=HOSTILE)
    (root / "study" / "report.html").write_text("<p>report</p>")
    with served(root) as local:
        yield local


def wait_for_plan(page: Any) -> None:
    page.wait_for_selector(".stat")
    until(page, "document.getElementById('main').dataset.settled")


def stat(page: Any, label: str) -> str:
    return page.locator(".stat", has_text=re.compile(f"^{label}")).locator("strong").inner_text()


def test_dragging_a_slider_redraws_the_flow(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open(PLAN)
        wait_for_plan(page)
        assert stat(page, "Rollout") == "2,048"
        box = page.locator("#slide-num_envs").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.37, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2, steps=8)
        page.mouse.up()
        until(page, "!document.querySelector('.stat strong').textContent.startsWith('2,048')")
        page.wait_for_timeout(300)
        size = int(page.locator("#num_envs").input_value().replace(",", ""))
        assert size > 500
        until(page, f"document.querySelector('.flow').shadowRoot.textContent.includes('N = {size:,}')")
        until(page, f"location.hash.includes('num_envs={size}')")


def test_typed_sizes_snap_to_legal_ones_and_say_why(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open(PLAN)
        wait_for_plan(page)
        page.fill("#num_minibatches", "7")
        page.press("#num_minibatches", "Enter")
        page.wait_for_selector(".notice")
        assert page.locator("#num_minibatches").input_value() == "8"
        assert "num_minibatches 7 does not divide the rollout 64 × 32 = 2,048" in page.locator(".notice").inner_text()
        page.fill("#total_timesteps", "20M")
        page.press("#total_timesteps", "Enter")
        until(page, "document.querySelectorAll('.stat strong')[3].textContent === '9,765'")
        page.fill("#num_envs", "many")
        page.press("#num_envs", "Enter")
        assert "is not a whole number" in page.locator(".notice").inner_text()


def test_a_fix_is_applied_and_its_finding_disappears(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#plan?num_envs=64&num_steps=8&total_timesteps=1000000")
        finding = page.locator('[data-rule="edge-weight"]')
        finding.locator("button.apply").click()
        page.wait_for_selector('[data-rule="edge-weight"]', state="detached")
        assert page.locator("#num_steps").input_value() == "32"


def test_a_smaller_replay_buffer_is_applied_when_memory_is_short(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#plan?algo=rrd&obs_shape=84x84x12&memory=8&total_timesteps=1000000")
        page.wait_for_selector("text=The run needs")
        page.locator("button.apply", has_text="Replay buffer").click()
        page.wait_for_selector("text=The run needs", state="detached")
        assert "buffer_size=" in page.url


def test_a_rule_is_explained(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#plan?num_envs=64&num_steps=8")
        wait_for_plan(page)
        page.locator('[data-rule="edge-weight"] summary').click()
        page.wait_for_selector(".why p")
        assert "Rudin et al." in page.locator(".why").first.inner_text()


def test_a_link_reproduces_the_plan(chromium: Any, server: LocalServer) -> None:
    state = "#plan?algo=rrd&rrd_batch_size=512&rrd_sample_size=32&total_timesteps=2000000&memory=64"
    with visit(chromium, server.url) as visitor:
        page = visitor.open(state)
        wait_for_plan(page)
        assert page.locator("#rrd_sample_size").input_value() == "32"
        assert "of 64 GB RAM" in page.locator("#memory-title + .meter").get_attribute("aria-label")
        again = page.evaluate("location.hash")
        page.goto("about:blank")
        page.goto(server.url + again)
        wait_for_plan(page)
        assert page.evaluate("location.hash") == again


def test_configs_of_libraries_are_copied(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open(PLAN)
        wait_for_plan(page)
        page.get_by_role("tab", name="rl_games", exact=True).click()
        page.wait_for_selector("text=horizon_length: 32")
        page.locator("#config-text button", has_text="Copy").click()
        until(page, "document.getElementById('toast').textContent === 'Copied'")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert "horizon_length: 32" in copied
        assert "to=rl_games" in page.url


def test_a_pasted_config_is_recognized_repaired_and_rescaled(chromium: Any, server: LocalServer) -> None:
    sizes = "num_actors: 60\n    horizon_length: 7\n    minibatch_size: 64\n    mini_epochs: 5\n"
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#config")
        page.evaluate("text => navigator.clipboard.writeText(text)", f"params:\n  config:\n    {sizes}")
        page.focus("#config-input")
        page.keyboard.press("Control+V")
        page.wait_for_selector("text=Recognized as rl_games")
        page.wait_for_selector(".diff .del")
        assert "minibatch_size: 64" in page.locator(".diff .del").inner_text()
        page.fill("#rescale-envs", "120")
        page.press("#rescale-envs", "Enter")
        page.wait_for_selector("td:has-text('num_actors')")
        page.locator("button", has_text="Copy the rescaled config").click()
        until(page, "document.getElementById('toast').textContent === 'Copied'")
        assert "num_actors: 120" in page.evaluate("navigator.clipboard.readText()")


def test_a_dropped_file_is_read(chromium: Any, server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "ppo.yaml").write_text("n_envs: 8\nn_steps: 128\nbatch_size: 256\n")
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#config")
        page.wait_for_selector("#config-input")
        page.set_input_files("input[type=file]", str(tmp_path / "ppo.yaml"))
        page.wait_for_selector("text=Recognized as Stable-Baselines3")
        page.evaluate("""() => {
            const data = new DataTransfer();
            data.items.add(new File(["num_steps: 16\\nnum_minibatches: 4\\nnum_envs: 8\\nupdate_epochs: 4"], "c.yaml"));
            document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }""")
        page.wait_for_selector("text=Recognized as CleanRL")


def test_the_keyboard_is_enough(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open(PLAN)
        wait_for_plan(page)
        page.focus("#slide-num_steps")
        page.keyboard.press("ArrowRight")
        until(page, "document.getElementById('num_steps').value === '48'")
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowUp")
        until(page, "document.getElementById('num_steps').value === '49'")
        page.focus('[role=tab][aria-selected="true"]')
        page.keyboard.press("ArrowRight")
        until(page, "document.activeElement.id === 'tab-cleanrl'")
        reached = set()
        page.focus(".skip")
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        assert {"Your config", "theme", "algo", "slide-num_envs", "num_envs", "recurrent", "machine"} - reached <= {
            "machine"
        }


def test_dark_mode_follows_the_system_and_the_button(chromium: Any, server: LocalServer) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    with visit(chromium, server.url, color_scheme="dark") as visitor:
        page = visitor.open(PLAN)
        wait_for_plan(page)
        assert page.evaluate(color) == "rgb(15, 20, 28)"
        page.click("#theme")
        assert page.evaluate(color) == "rgb(246, 248, 251)"
        box = "getComputedStyle(document.querySelector('.flow').shadowRoot.querySelector('rect')).fill"
        assert page.evaluate(box) == "rgb(238, 243, 251)"
        page.reload()
        wait_for_plan(page)
        assert page.evaluate(color) == "rgb(246, 248, 251)"


@pytest.mark.parametrize("width", [390, 768, 1400, 1600])
def test_every_view_fits_every_width(chromium: Any, server: LocalServer, width: int) -> None:
    with visit(chromium, server.url, viewport={"width": width, "height": 900}) as visitor:
        for view in VIEWS:
            page = visitor.open(view)
            page.wait_for_selector("main section")
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            if view in ("#plan", "#studies") or width > 700:  # the list of runs has more columns than a phone
                assert page.evaluate(CUT) == [], view


def test_runs_are_filtered_sorted_overlaid_and_compared(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#runs")
        page.wait_for_selector(".run-table tbody tr")
        page.fill("input[type=search]", "runs/ done")
        rows = page.locator(".run-table tbody tr")
        assert rows.count() == 3
        page.locator("button", has_text="N × T").click()
        column = page.locator(".run-table thead th").all_inner_texts().index("N × T ↑")
        shapes = [text.split("\t")[column].strip() for text in rows.all_inner_texts()]
        assert shapes == sorted(shapes, key=lambda shape: int(re.sub(r"\D.*", "", shape)))
        page.locator("button", has_text="Clear").click()
        page.check('[aria-label="Overlay runs/one"]')
        page.check('[aria-label="Overlay runs/two"]')
        until(page, "document.querySelectorAll('.chart path.line').length === 2")
        page.wait_for_selector("text=Difference of the two runs")
        page.wait_for_selector("h2:has-text('Diagnosis:')")
        page.select_option("#x-axis", "gradient_steps")
        page.wait_for_selector(".chart text:has-text('gradient steps')")
        page.locator("#smoothing").fill("0.6")
        until(page, "document.querySelectorAll('.chart path.raw').length === 2")


def test_curves_have_values_under_the_pointer_and_zoom(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#runs?run=runs/one")
        page.wait_for_selector(".chart path.line")
        box = page.locator(".chart").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".tip:not([hidden])")
        assert "timesteps" in page.locator(".tip").inner_text()
        before = page.locator(".chart path.line").get_attribute("d")
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 90)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 90, steps=5)
        page.mouse.up()
        page.wait_for_selector(".zoom-reset:not([hidden])")
        assert page.locator(".chart path.line").get_attribute("d") != before
        page.click(".zoom-reset")
        assert page.locator(".chart path.line").get_attribute("d") == before
        page.focus(".chart")
        page.keyboard.press("End")
        assert "one" in page.locator(".chart-box [role=status]").inner_text()


def test_a_running_curve_grows(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#runs?run=runs/live")
        page.wait_for_selector(".chart path.line")
        page.wait_for_timeout(500)
        before = page.locator(".chart path.line").get_attribute("d")
        root = Path(server.ask("/api/runs").json["root"])
        metrics = root / "runs" / "live" / "metrics.jsonl"
        row = json.loads(metrics.read_text().splitlines()[-1])
        row |= {"update": row["update"] + 10, "timesteps": row["timesteps"] + 50_000, "eval_return": 999.0}
        with metrics.open("a") as file:
            file.write(json.dumps(row) + "\n")
        until(page, f"document.querySelector('.chart path.line').getAttribute('d') !== {json.dumps(before)}")
        assert "999" in page.locator(".chart").get_attribute("aria-label")


def test_names_of_runs_are_text(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#runs")
        page.locator(".run-table button", has_text=NAME).click()
        page.wait_for_selector("h2:has-text('<img')")
        page.wait_for_selector("h2:has-text('Diagnosis:')")
        assert page.locator("main img").count() == 0


def test_a_study_shows_progress_scores_and_verdict(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#studies?study=study")
        page.wait_for_selector(".intervals")
        assert page.locator(".trials a").count() == 33
        assert page.locator(".shape-grid td").count() >= 3
        assert page.locator(".interval").first.inner_text().startswith("2×1024")
        verdict = page.locator('section[aria-label="Verdict"]')
        assert HOSTILE in verdict.inner_text()
        assert "Use 2×1024. Avoid 32×64 and 1024×2" in verdict.inner_text()
        assert verdict.locator(".command").inner_text().startswith("rollshape train --env CartPole-v1")
        assert page.locator("main script").count() == 0
        page.wait_for_selector(".chart path.band")
        page.select_option("#study-x", "seconds")
        with page.expect_popup() as popup:
            page.click("text=Open the report")
        assert popup.value.inner_text("p") == "report"


def test_a_probe_is_shown_with_explanations(chromium: Any, server: LocalServer) -> None:
    with visit(chromium, server.url) as visitor:
        page = visitor.open("#probes")
        page.wait_for_selector("text=Gradient variance")
        page.wait_for_selector(".chart path.line")
        titles = page.locator("main h2").all_inner_texts()
        assert titles[1].endswith("50% of the run")
        assert {
            "Gradient variance",
            "Effective sample size",
            "Other shapes",
            "Gradient noise scale",
        } <= set(titles)
        assert page.locator("summary", has_text="What does this mean?").count() >= 5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_accessibility_violation(chromium: Any, server: LocalServer, theme: str) -> None:
    with visit(chromium, server.url, color_scheme=theme, bypass_csp=True) as visitor:
        for view in VIEWS:
            page = visitor.open(view)
            page.wait_for_selector("main section")
            page.wait_for_timeout(600)
            assert check_accessibility(page) == [], view
