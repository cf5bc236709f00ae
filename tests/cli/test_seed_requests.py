"""`rollshape train --num-seeds`: requests that start no process."""

import json
import signal
from pathlib import Path

import pytest

from rollshape.cli import main
from rollshape.processes import SignalReceived
from rollshape.studies.seeds import SeedRuns

SHORT = ("--env", "FrozenLake-v1", "--num-envs", "16", "--num-steps", "64", "--num-minibatches", "2", "--seed", "3")


def test_more_shards_can_be_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = []
    monkeypatch.setattr(SeedRuns, "train", lambda runs, _: specs.extend(trial.spec for trial in runs.trials))
    main(["train", *SHORT, "--num-seeds", "2", "--num-shards", "2", "--out", str(tmp_path / "x")])
    assert [(spec.seed, spec.num_shards) for spec in specs] == [(3, 2), (4, 2)]


def test_an_interrupt_before_a_seed_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise SignalReceived(signal.SIGINT)

    monkeypatch.setattr(SeedRuns, "train", interrupt)
    assert main(["train", *SHORT, "--num-seeds", "2", "--out", str(tmp_path / "x"), "--json"]) == 130
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "interrupted"
    assert [(run["seed"], run["status"]) for run in document["seeds"]] == [(3, "pending"), (4, "pending")]
    assert document["final_return"] is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num-seeds", "1"], "num_seeds must be at least 2"),
        (["--num-seeds", "1e9"], "num_seeds must be at most 1,000"),
        (["--num-seeds", "2", "--seed", str(2**32 - 1)], f"Use --seed {2**32 - 2} or less"),
        (["--num-seeds", "2", "--microbatch-size", "300"], "Choose a divisor of 512"),
        (["--num-seeds", "2", "--out", "file/x"], "Cannot create file/x: Not a directory"),
        (["--num-seeds", "2", "--out", "study"], "study already holds a study"),
        (["--num-seeds", "2", "--env", "NoSuch-v0"], "NoSuch-v0"),
    ],
)
def test_a_wrong_request_writes_nothing(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "journal.jsonl").touch()
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", *SHORT, *flags]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
