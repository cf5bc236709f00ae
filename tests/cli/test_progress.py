"""Progress of a score on stderr; nothing but the document on stdout with --json."""

import json
from pathlib import Path

import pytest

from rollshape.cli import main
from rollshape.cli.progress import ScoreLine, progress_bar
from rollshape.training.evaluate import Score, ScoreProgress

HOST = ("--env", "gymnasium:CartPole-v1", "--num-envs", "4", "--num-steps", "16", "--num-epochs", "1",
        "--hidden-sizes", "8", "--total-timesteps", "128", "--final-episodes", "20")  # fmt: skip


def test_a_line_for_each_score(capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress_bar()
    line = ScoreLine(bar)
    for total in (128, 64):
        line.on_score(ScoreProgress(0, total, None))
        assert bar.tasks[0].fields["status"] == ""
        line.on_score(ScoreProgress(32, total, Score(12.34, 4.5, 32, 10.0)))
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (32, total)
    bar.stop()
    assert len(bar.tasks) == 1
    shown = capsys.readouterr()
    assert "32/64 episodes return 12.3 ± 4.5" in " ".join(shown.err.split())
    assert shown.out == ""


def test_train_and_eval_show_scores_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert main(["train", *HOST, "--out", out]) == 0
    shown = capsys.readouterr()
    assert "scoring" in shown.err
    assert "20/20" in shown.err
    assert "over 20 fresh episodes" in shown.out
    assert main(["eval", out, "--episodes", "3"]) == 0
    shown = capsys.readouterr()
    assert "3/3" in shown.err
    assert "over 3 episodes" in shown.out
    assert "scoring" not in shown.out


def test_json_is_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    for asked, name in (
        (["train", *HOST, "--out", out], "final_episodes"),
        (["eval", out, "--episodes", "20"], "episodes"),
    ):
        assert main([*asked, "--json"]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)[name] == 20
        assert "scoring" not in shown.err
