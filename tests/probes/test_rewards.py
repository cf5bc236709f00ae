"""`rollshape probe` of runs that draw from a replay."""

import json
from pathlib import Path

import pytest

import rollshape
from rollshape.cli import main
from rollshape.errors import RequestError
from rollshape.probes.rewards import RewardProbe
from rollshape.reports.report import write_report
from rollshape.studies.run import run_study
from rollshape.studies.study_file import study_from_dict
from rollshape.training.run import TrainedRun, train

SIZES = {"total_timesteps": 800, "learning_starts": 400, "steps_per_iteration": 200, "train_batches": 2,
         "transition_batch_size": 16, "hidden_sizes": (8,), "buffer_size": 1000}  # fmt: skip
REWARDS = {"rrd_batch_size": 16, "rrd_sample_size": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(env="Pendulum-v1", algo="rrd", out=tmp_path_factory.mktemp("x") / "run", **SIZES, **REWARDS)


def test_every_way_to_cut_the_reward_batch_and_an_episode(run: TrainedRun, capsys: pytest.CaptureFixture[str]) -> None:
    found = rollshape.probe_rewards(run, draws=32)
    assert [(p.num_subsequences, p.rrd_sample_size) for p in found.surface] == [(8, 2), (4, 4), (2, 8), (1, 16)]
    assert found.best.mse == min(p.mse for p in found.surface)
    assert len(found.redistribution.true) == 200
    text = " ".join(found.sentences())
    assert "Best split of 16 timesteps" in text
    assert len(dict(found.figures())["redistribution"].axes[0].lines) == 2
    assert RewardProbe.from_dict(json.loads(json.dumps(found.to_dict()))).to_dict() == found.to_dict()
    assert main(["probe", str(run.path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["best"]["rrd_sample_size"] in (2, 4, 8, 16)
    assert document["reward_surface"][1]["ci"]["variance"][0] > 0
    folder = run.path / "probes" / "4"
    assert {path.name for path in folder.iterdir()} == {"probe.json", "reward_gradient.png", "redistribution.png"}
    assert main(["probe", str(run.path), "--no-figures"]) == 0
    shown = capsys.readouterr().out
    assert "  run\n" in shown
    assert document["command"].startswith("rollshape probe ")


def test_what_has_no_rollout_is_said(run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RequestError, match="no rollout of N × T"):
        rollshape.probe(run)
    soft = train(env="Pendulum-v1", algo="sac", out=tmp_path / "sac", **SIZES)
    assert main(["probe", str(soft.path)]) == 2
    assert "PPO, A2C or REINFORCE" in capsys.readouterr().err
    assert main(["probe", str(run.path), "--checkpoint", "all"]) == 2
    assert main(["probe", str(tmp_path / "nothing")]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_studys_report_shows_what_was_redistributed(tmp_path: Path) -> None:
    fixed = {name: list(value) if isinstance(value, tuple) else value for name, value in (SIZES | REWARDS).items()}
    study = {"env": "Pendulum-v1", "algo": "rrd", "fixed": fixed, "points": [{"learning_rate": 1e-3}], "seeds": 1,
             "probe": {"at": [1.0]}}  # fmt: skip
    outcome = run_study(study_from_dict(study, "x"), tmp_path / "out", jobs=1)
    assert outcome.is_finished
    (document,) = outcome.store.probes(outcome.trials[0].id).values()
    assert "RUN_DIR" in document["command"]
    text = write_report(tmp_path / "out").html.read_text()
    assert '<figure id="rewards-0"' in text
    assert "redistributed" in text
