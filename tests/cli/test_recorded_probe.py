"""`rollshape probe` of a run that another library trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollshape.cli import main
from rollshape.gradients.intervals import Estimate
from rollshape.gradients.noise_scale import NoiseScale, NoiseScales
from rollshape.integrations.description import describe
from rollshape.integrations.measurement import VARIANCE, Measured, Measurement, MinibatchLoss, ShapeError
from rollshape.integrations.writer import RunWriter

ONE = Estimate(1.0, 0.5, 2.0)


def measurement(update: int) -> Measurement:
    none = NoiseScale(None, 100.0, None, "no signal")
    return Measurement(
        update=update,
        timesteps=128 * update,
        measured=Measured(4, 32, 64, 4, 32, "episodes", 9, 1000, "layers", 0.9, True, 0.1),
        variance=dict.fromkeys(VARIANCE, ONE),
        effective_sample_size=Estimate(21.2, 10.0, 40.0),
        noise_scale=NoiseScales(NoiseScale(50.0, 20.0, None), none, none),
        autocorrelation=[1.0, 0.5],
        minibatch=[MinibatchLoss(64, 2.0, 0.8)],
        surface=[ShapeError(8, 16, ONE, ONE, ONE)],
        value_gradient_share=None,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    config = {"n_envs": 4, "n_steps": 32, "batch_size": 64, "n_epochs": 5, "n_timesteps": 1280}
    writer = RunWriter(tmp_path / "run", describe(config, "sb3"))
    for update in (1, 2):
        writer.append({"update": update, "timesteps": 128 * update})
    writer.end()
    return tmp_path / "run"


def test_the_last_measurement_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for update in (1, 2):
        measurement(update).save(run)
    assert main(["probe", str(run)]) == 0
    text = capsys.readouterr().out
    assert "after update 2 (256 timesteps)" in text
    assert "Effective sample size: 21.2 of 128 steps (10 … 40)." in text
    assert "Gradient noise scale: 50 (20 … ∞) steps" in text
    assert max(map(len, text.splitlines()[1:])) < 110


def test_json_is_the_stored_document(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for update in (1, 2):
        measurement(update).save(run)
    assert main(["probe", str(run), "--checkpoint", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"run_dir": str(run), **measurement(1).to_dict()}
    assert main(["probe", str(run), "--checkpoint", "all", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["probes"]) == 2


def test_what_is_missing_or_damaged_is_a_message(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(run)]) == 2
    assert "was trained by Stable-Baselines3, and its gradient was not measured" in capsys.readouterr().err
    measurement(1).save(run)
    assert main(["probe", str(run), "--checkpoint", "7"]) == 2
    assert "Choose from: 1." in capsys.readouterr().err
    file = run / "probes" / "1" / "measurement.json"
    file.write_text(file.read_text().replace("21.2", "22.2"))
    assert main(["probe", str(run)]) == 2
    assert "was changed after it was written" in capsys.readouterr().err
