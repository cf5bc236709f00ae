"""The page is one file, says its conclusion first, escapes what it is given, and does without what is missing."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reports.runs import folder_of, probe_document, spec_of, write_run

from rollshape.cli import main
from rollshape.errors import RequestError
from rollshape.reports.report import write_report
from rollshape.reports.report_data import read_report_data
from rollshape.reports.summary import UNEQUAL_ROLLOUTS, summarize_claims
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand
from rollshape.training.rundir import RunDirectory

HOSTILE = '<script>alert(1)</script> "quoted" & $\\frac{$ | `x` ]( http://evil.example'


class Page(HTMLParser):
    """What a browser would load, and the text that a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                self.loads.append(value or "")
        if tag in ("link", "iframe", "object", "embed", "img", "base"):
            self.loads.append(f"<{tag}>")


def study_folder(path: Path, claim: str = "More is better.", env: str = "CartPole-v1", name: str = "tradeoff") -> Store:
    """A study of three shapes as if it had been run, with a probe of each and points that went wrong."""
    study = study_from_dict(
        {"title": "Title", "claim": claim, "rule": "more-envs-is-better", "env": env,
         "points": [{"num_envs": n} for n in (2, 32, 1024, 3000)],
         "fixed": {"rollout_size": 2048, "num_minibatches": 4, "total_timesteps": 2048 * 40}, "seeds": 11,
         "probe": {"at": [0.5]}}, name,
    )  # fmt: skip
    store = Store(path)
    store.begin(study)
    ends = {2: 400.0, 32: 300.0, 1024: 100.0}
    for trial in expand(study).trials:
        if trial.seed == 10:
            store.record_end(trial.id, TrialResult("failed", "out of memory", f"no memory for {HOSTILE}"))
            continue
        write_run(store.run_dir(trial.id), trial.spec, ends[trial.plan.num_envs])
        store.record_end(trial.id, TrialResult("done", summary={"final_return": 1.0}))
        if trial.probe_at:
            store.write_probe(trial.id, 0.5, probe_document({1024: (4.0, 0.1), 64: (1.0, 0.5), 2: (0.1, 0.9)}))
    return store


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    study_folder(path, claim=HOSTILE)
    write_report(path)
    return path


def test_nothing_is_loaded_from_anywhere(written: Path) -> None:
    text = (written / "report.html").read_text()
    page = Page(text)
    assert all(link.startswith(("#", "data:text/csv", "data:image/png")) for link in page.loads), page.loads
    assert "url(http" not in text
    assert "default-src 'none'" in text
    assert len(text) < 6_000_000


def test_text_of_files_is_escaped(written: Path) -> None:
    text = (written / "report.html").read_text()
    assert Page(text).tags.count("script") == 1  # our own
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "<script>" not in (written / "report.md").read_text()


def test_figures_are_drawn_and_their_data_can_be_taken_along(written: Path) -> None:
    text = (written / "report.html").read_text()
    names = re.findall(r'<figure id="([^"]+)"', text)
    kinds = {"timesteps", "seconds", "gradient-steps"}
    lab = {"predicted-0", "shapes-0", "terms-0", "cosines-0", "surface-0"}
    assert {f"curves-0-{kind}" for kind in kinds} | {"finals-0"} | lab == set(names)
    for name in names:
        assert (written / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"report/{name}.png" in (written / "report.md").read_text()
    assert text.count('<g id="curves-0-timesteps-s0-seed') == 10  # all seeds that have a curve
    data = re.search(r'download="finals-0.csv" href="data:text/csv;base64,([^"]+)"', text)
    assert data is not None
    rows = base64.b64decode(data.group(1)).decode().splitlines()
    assert rows[0] == "group,final_return,centre,low,high"
    assert len(rows) == 1 + 30


def test_the_conclusion_comes_first_and_says_what_the_runs_hold(written: Path) -> None:
    text = (written / "report.html").read_text()
    answer = text.index('class="answer refuted"')
    assert answer < text.index("<section")
    assert re.search(r"2×1024 has the highest final return, (39|40)\d", text)
    assert "A probe with h = 1 would have chosen 32×64: regret" not in text  # 0.1 + 0.9 is the least at h = 1
    assert "A probe with h = 1 would have chosen 1024×2" in text
    assert "A probe with measured h would have chosen 2×1024: regret 0 [0, " in text  # 0.1 + 4/10


def test_the_box_says_what_to_use_with_a_command_and_configs_to_copy(written: Path) -> None:
    text = (written / "report.html").read_text()
    box = text[text.index('class="answer') : text.index("</header>")]
    assert "Use 2×1024. Avoid 32×64 and 1024×2: significantly lower final return." in box
    assert "rollshape train" in box
    assert "<span>--num-envs 2</span>" in box
    assert "Config for Stable-Baselines3" in text
    assert "n_envs: 2\nn_steps: 1024\nbatch_size: 512" in text
    markdown = (written / "report.md").read_text()
    assert markdown.index("Use 2×1024") < markdown.index("    rollshape train --env CartPole-v1") < markdown.index("##")


def test_tables_have_intervals_below_values_and_captions_that_do_not_scroll(written: Path) -> None:
    text = (written / "report.html").read_text()
    assert "<caption" not in text
    assert re.search(r"<td>(39|40)\d\.?\d?<small>\[[\d., ]+\]</small></td>", text)
    assert '<th scope="col" class=text>evidence in one run, and what to change</th>' in text


def test_a_ranking_of_other_sizes_says_what_it_leaves_out(written: Path) -> None:
    data = read_report_data(written)
    assert UNEQUAL_ROLLOUTS not in summarize_claims(data)
    first, *others = data.tasks[0].groups
    larger = [
        replace(group, runs=tuple(replace(run, plan=replace(run.plan, rollout_size=4096)) for run in group.runs))
        for group in others
    ]
    task = replace(data.tasks[0], groups=(first, *larger))
    assert UNEQUAL_ROLLOUTS in summarize_claims(replace(data, tasks=[task]))


def test_what_went_wrong_is_told(written: Path) -> None:
    text = (written / "report.html").read_text()
    assert "Illegal: num_envs 3000." in text
    assert "Failed: 2x1024" in text
    assert "no memory for" in text


def test_a_plain_folder_has_a_report_that_says_what_is_missing(tmp_path: Path) -> None:
    report = write_report(folder_of(tmp_path / "runs", {8: 100.0, 64: 200.0}, seeds=2))
    text = report.html.read_text()
    assert report.claims[0].answer == "not settled"
    assert "No run was probed" in text
    assert "Only 2 seeds per shape: intervals are wide." in text


def test_runs_that_have_not_ended_diverged_or_were_not_scored_do_not_break_it(tmp_path: Path) -> None:
    write_run(tmp_path / "a", spec_of(8), 100.0, "running")
    write_run(tmp_path / "b", spec_of(8, 1), 100.0, "diverged")
    write_run(tmp_path / "c", spec_of(64), 100.0, eval_return=None, policy_loss=None)
    text = write_report(tmp_path).html.read_text()
    assert "the curves show training returns" in text
    assert "a is running" in text


def test_a_run_directory_alone_has_a_report(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", spec_of(8, env=HOSTILE[:25]), 100.0)
    text = write_report(path).html.read_text()
    assert "Only 1 seed per shape: intervals are missing." in text
    assert "<script>alert" not in text


def test_a_folder_without_runs_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="holds no run"):
        write_report(tmp_path)
    write_run(tmp_path / "a", spec_of(8), 100.0)
    (tmp_path / "a" / "metrics.jsonl").unlink()
    with pytest.raises(RequestError, match="has a row of metrics"):
        write_report(tmp_path)
    RunDirectory(tmp_path / "a").write({"spec": {}, "status": "done", "versions": {}})
    with pytest.raises(RequestError, match="plan is missing"):
        write_report(tmp_path)


def test_the_command_prints_the_conclusion_and_the_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(folder_of(tmp_path / "runs", {8: 100.0, 64: 200.0}, seeds=2))
    assert main(["report", folder]) == 0
    shown = capsys.readouterr().out
    assert shown.strip().endswith("report.html")
    assert "64×32 has the highest final return" in shown
    assert main(["report", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "not settled"


def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    folder, victim = tmp_path / "runs", tmp_path / "victim"
    write_run(folder / "a", spec_of(64), 100.0)
    victim.write_text("precious")
    for name in (".report.html.writing", "report.html", "report.md"):
        (folder / name).symlink_to(victim)
    write_report(folder)
    assert victim.read_text() == "precious"
    assert not (folder / "report.html").is_symlink()
    elsewhere = tmp_path / "elsewhere"
    (folder / "report").rename(elsewhere)
    (folder / "report").symlink_to(elsewhere)
    with pytest.raises(RequestError, match="is a link"):
        write_report(folder)


def test_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "runs\udcff"
    write_run(folder / "a", spec_of(64), 100.0)
    report = write_report(folder)
    assert json.loads(json.dumps(report.to_dict()))["html"] == str(folder / "report.html")
    assert "Runs in runs?" in report.html.read_text()
