"""The whole of a probe: its document, its words, its figures, and the command with everything that can be wrong."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rollshape
from rollshape.cli import main
from rollshape.errors import RunError
from rollshape.gradients.intervals import Estimate
from rollshape.probes.quantities import MEASURED_FIRST, QUANTITIES
from rollshape.probes.quantities.cosine_maps import new_cosine_map
from rollshape.probes.request import PARTS
from rollshape.probes.result import Probe
from rollshape.training import checkpoint
from rollshape.training.run import TrainedRun, train
from rollshape.training.rundir import RunDirectory
from rollshape.training.setup import open_run

CONTRACT = {
    "geometry", "variance", "effective_sample_size", "autocorrelation", "noise_scale", "minibatch", "cosine", "bias",
    "surface", "horizon", "critic", "command", "update",
}  # fmt: skip
OPTIONS: dict[str, Any] = {"num_envs": 32, "num_batches": 3}
FLAGS = ("--num-envs", "32", "--num-batches", "3")


@pytest.fixture(scope="module")
def probe(lake: TrainedRun) -> Probe:
    return rollshape.probe(lake, **OPTIONS)


@pytest.fixture(scope="module")
def document(probe: Probe) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(probe.to_dict(), allow_nan=False))
    return found


def test_the_document_keeps_its_contract(document: dict[str, Any]) -> None:
    assert set(document) >= CONTRACT
    assert set(document["variance"]) >= {"total", "individual", "covariance", "ci"}
    assert set(document["noise_scale"]) >= {"clustered", "naive", "ci", "value"}
    assert set(document["noise_scale"]["value"]) >= {"clustered", "naive", "ci"}
    assert set(document["bias"]) == {"window", "estimator", "total"}
    for each in document["bias"].values():
        assert set(each) >= {"squared", "relative", "ci"}
    assert set(document["cosine"]) >= {"pairwise", "to_reference"}
    for point in document["surface"]:
        assert set(point) >= {"num_envs", "num_steps", "variance", "bias2", "bias2_window", "mse", "score"}
        assert point["num_envs"] * point["num_steps"] == 32
    for point in document["minibatch"]:
        assert set(point) >= {"size", "variance", "cosine"}


def test_the_estimator_is_stated(document: dict[str, Any]) -> None:
    stated = document["geometry"]
    assert (stated["num_envs"], stated["num_steps"], stated["rollout_size"]) == (8, 4, 32)
    assert (stated["gamma"], stated["gae_lambda"], stated["advantages"]) == (0.9, 0.8, "not normalized")
    assert (stated["start"], stated["probe_envs"], stated["probe_steps"]) == ("stationary", 32, 32)
    longest = stated["burn_in"][0] // 2
    assert 5 < longest <= 100
    assert stated["burn_in"][1] == 3 * longest
    assert stated["tail_steps"] == 44
    assert "λ = 1" in stated["reference"]


def test_parts_agree_with_each_other(probe: Probe, document: dict[str, Any]) -> None:
    noise = document["variance"]
    assert noise["total"] == pytest.approx(noise["individual"] + noise["covariance"])
    own = probe.run_point
    assert own is not None
    assert noise["total"] == pytest.approx(own.variance.value, rel=1e-3)
    assert document["effective_sample_size"] == pytest.approx(32 * noise["individual"] / noise["total"])
    assert len(document["autocorrelation"]) == 4
    assert document["bias"]["total"]["squared"] == pytest.approx(own.bias2.value, rel=1e-3, abs=1e-9)
    horizon = probe.horizon.value or 1.0
    for point in probe.surface:
        assert point.mse.value == pytest.approx(max(point.bias2.value, 0) + point.variance.value)
        assert point.score.value == pytest.approx(max(point.bias2.value, 0) + point.variance.value / horizon)
    assert document["minibatch"][-1]["size"] == 32 or document["minibatch"][-1]["size"] == 16
    for size, points in probe.sizes.items():
        assert all(p.num_envs * p.num_steps == size for p in points)
    assert {8, 16, 64, 128} == set(probe.sizes)


@pytest.mark.parametrize("parts", ["all", "none"])
def test_a_document_is_read_back(parts: str, lake: TrainedRun, probe: Probe) -> None:
    measured = probe if parts == "all" else rollshape.probe(lake, **OPTIONS, parts="none")
    document = json.loads(json.dumps(measured.to_dict(cosine_maps=True), allow_nan=False))
    assert Probe.from_dict(document).to_dict(cosine_maps=True) == document
    del document["pictures"], document["run_dir"]  # as a study stores it
    again = Probe.from_dict(document).to_dict()
    del again["run_dir"]
    assert again == document


def test_splits_are_compared_with_the_runs_own(probe: Probe, document: dict[str, Any]) -> None:
    """A best split is marked only if its paired interval is below 0; documents without differences can be read."""
    own = probe.compared_point
    assert own is probe.run_point is not None
    assert [p.mse_difference is None for p in probe.surface] == [p is own for p in probe.surface]
    assert set(document["best"]["separated"]) == {"mse", "score"}
    best = min((p for p in probe.surface if p is not own), key=lambda p: p.mse.value)
    lower = replace(best, mse=Estimate(0, 0, 0), mse_difference=Estimate(-3, -4, -2))
    for difference, is_best in ((Estimate(-3, -4, -2), True), (Estimate(-3, -7, 1), False)):
        point = replace(lower, mse_difference=difference)
        changed = replace(probe, surface=[point if p is best else p for p in probe.surface])
        assert (changed.separated_best("mse") is point) == is_best
        assert changed.to_dict()["best"]["separated"]["mse"] is is_best
        [said] = [sentence for sentence in changed.sentences() if "for a single update" in sentence]
        assert ("none is significantly better than the run's 8×4" in said) != is_best
        marks = {row[0]: row[-1] for table in changed.tables() if table.title.startswith("Diff") for row in table.rows}
        assert ("best" in marks[f"{best.num_envs}×{best.num_steps}"].split(", ")) == is_best
    document = deepcopy(document)
    for point in document["surface"]:
        del point["mse_difference"], point["score_difference"]
    old = Probe.from_dict(document)
    assert old.compared_point is None
    assert old.to_dict()["best"]["separated"] == {"mse": None, "score": None}
    assert old.plot()
    assert "not compared" in " ".join(old.sentences())


def test_every_quantity_is_a_field_and_its_part_a_flag() -> None:
    assert len({quantity.name for quantity in QUANTITIES}) == len(QUANTITIES)
    assert {quantity.part for quantity in QUANTITIES} - {None} == set(PARTS)
    assert set(MEASURED_FIRST) <= set(QUANTITIES)


def test_a_probe_repeats(lake: TrainedRun, document: dict[str, Any]) -> None:
    again = rollshape.probe(lake.path, 12, **OPTIONS).to_dict()
    again.pop("command")
    assert again == {name: value for name, value in document.items() if name != "command"}


def test_the_command_in_words_and_files(lake: TrainedRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(lake.path), *FLAGS, "--horizon", "5"]) == 0
    shown = capsys.readouterr()
    assert "Effective sample size: " in shown.out
    assert "over h = 5 updates (given" in shown.out
    assert "every split of 32 steps: bias² + variance/h" in shown.out
    assert "credit assignment by the estimator" in shown.out
    assert "reset together: bias of a single update" in shown.out
    assert "rollshape probe" in shown.out
    assert "policy: windows of 1 to 32 steps" in shown.err
    folder = lake.path / "probes" / "12"
    assert json.loads((folder / "probe.json").read_text())["horizon"]["source"] == "given"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        f"{x}.png"
        for x in (
            "surface", "sizes", "variance", "autocorrelation", "minibatch", "cosines", "noises", "reset_phase",
        )
    } | {"probe.json"}  # fmt: skip
    assert all((folder / name).read_bytes()[:4] == b"\x89PNG" for name in names if name.endswith("png"))


def test_all_checkpoints_as_one_document(lake: TrainedRun, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--checkpoint", "all", "--json", "--no-figures", "--rollout-size", "16")
    assert main(["probe", str(lake.path), *FLAGS, *flags]) == 0
    found = json.loads(capsys.readouterr().out)["probes"]
    assert [each["update"] for each in found] == [0, 4, 8, 12]
    assert all(each["horizon"] == found[0]["horizon"] for each in found)
    assert {p["num_envs"] * p["num_steps"] for each in found for p in each["surface"]} == {16}
    assert not (lake.path / "probes" / "0" / "surface.png").exists()


def test_only_what_is_asked_for(lake: TrainedRun, document: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """What is always measured does not depend on the other parts."""
    least = rollshape.probe(lake.path, 12, **OPTIONS, parts="none")
    found = least.to_dict()
    assert found["variance"] == document["variance"]
    assert found["autocorrelation"] == document["autocorrelation"]
    assert all(not found[name] for name in ("sizes", "minibatch", "collected", "cosine", "critic", "noises", "steps"))
    assert "single step" not in " ".join(least.sentences())
    assert main(["probe", str(lake.path), *FLAGS, "--horizon", "5", "--parts", "batches,pictures", "--json"]) == 0
    some = json.loads(capsys.readouterr().out)
    assert some["command"].endswith("--parts batches,pictures")
    assert some["cosine"] is not None
    assert some["steps"]
    assert some["noises"] is some["reset_phase"] is None
    folder = lake.path / "probes" / "12"
    assert {"minibatch.png", "cosines.png", "variance.png"} <= {path.name for path in folder.iterdir()}
    assert main(["probe", str(lake.path), *FLAGS, "--horizon", "5", "--parts", "none"]) == 0
    assert "Shuffled minibatches" not in capsys.readouterr().out


def test_sentences_say_what_is_unknown(probe: Probe) -> None:
    text = " ".join(probe.sentences())
    assert "Effective sample size" in text
    assert "for a single update" in text
    from rollshape.gradients.noise_scale import NoiseScale, NoiseScales
    from rollshape.probes.quantities.horizon import measure_horizon

    lost = NoiseScale(None, 100.0, None, "no signal: with 64 environments |G|² cannot be told from zero")
    changed = replace(probe, noise_scale=NoiseScales(lost, lost, lost), horizon=measure_horizon([], [12]))
    text = " ".join(changed.sentences())
    assert "No gradient signal detected (noise scale > 100 steps, 95 %)" in text
    assert "--keep-checkpoints" in text


def test_a_cosine_map_tells_environments_apart() -> None:
    """Two environments of two steps: cosines 1 within, 0 across, .5 with the other batches."""
    own = np.kron(np.eye(2), np.ones((2, 2)))
    cosine_map = new_cosine_map(2, 2, np.stack([own, np.full((4, 4), 0.5)]))
    assert cosine_map.within_env == 1
    assert cosine_map.across_batches == 0.5


def test_the_runs_own_states_and_no_critic(tmp_path: Path) -> None:
    run = train(env="CartPole-v1", algo="reinforce", baseline="mean", num_envs=32, num_steps=2, total_timesteps=256,
                hidden_sizes=(8,), gamma=0.5, out=tmp_path / "x")  # fmt: skip
    found = rollshape.probe(run, start="run", num_batches=3, horizon=2.0, parts="critic,batches").to_dict()
    assert found["geometry"]["burn_in"] is None
    assert found["geometry"]["probe_envs"] == 32
    assert "constant" in found["geometry"]["advantages"]
    assert found["noise_scale"]["value"] is None
    assert found["critic"] == []


def test_hardly_anybody_saw_a_reward(tmp_path: Path) -> None:
    """Without a critic there is no gradient until the goal is reached; from these states hardly anybody reaches it."""
    run = train(env="FrozenLake-v1", algo="reinforce", baseline="none", num_envs=32, num_steps=2, total_timesteps=64,
                hidden_sizes=(8,), gamma=0.5, out=tmp_path / "x")  # fmt: skip
    with pytest.raises(RunError) as error:
        rollshape.probe(run, start="run", num_batches=3, rollout_size=4, horizon=1.0)
    assert "zero" in error.value.message


def test_one_checkpoint_has_no_horizon(copied: RunDirectory) -> None:
    found = rollshape.probe(copied.path, **OPTIONS)
    assert found.horizon.value is None
    assert "--keep-checkpoints" in (found.horizon.reason or "")
    assert found.surface[0].score.value == found.surface[0].mse.value


def test_a_host_environment_is_probed(tmp_path: Path) -> None:
    run = train(env="gymnasium:CartPole-v1", env_kwargs={"max_episode_steps": 10}, num_envs=2, num_steps=4,
                total_timesteps=64, hidden_sizes=(8,), gamma=0.5, out=tmp_path / "x")  # fmt: skip
    found = rollshape.probe(run, num_envs=32, num_batches=3, horizon=1.0)
    assert found.geometry.burn_in == (20, 30)
    assert len(found.surface) == 4
    assert found.save(figures=False) == run.path / "probes" / "8"


@pytest.mark.parametrize(
    ("flags", "rule", "told"),
    [
        (("--num-envs", "31"), "independent-environments", "at least 32"),
        (("--start", "run"), "independent-environments", "at least 32"),
        (("--rollout-size", "2053"), "rollout-split", "2052 or 2054"),
        (("--rollout-size", "0"), "whole-number", "at least 1"),
        (("--rollout-size", "3"), "rollout-split", "4"),
        (("--checkpoint", "7"), "checkpoint", "0, 4, 8, 12"),
        (("--num-batches", "2"), "whole-number", "at least 3"),
        (("--horizon", "0.5"), "number-range", "at least 1"),
        (("--seed", "-1"), "whole-number", "at least 0"),
        (("--start", "nowhere"), "flags", "stationary"),
        (("--parts", "noise"), "choice", "noises"),
    ],
)
def test_what_cannot_be_meant(
    flags: tuple[str, ...], rule: str, told: str, lake: TrainedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", str(lake.path), *flags, "--json"]) == 2
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["rule"] == rule
    assert told in f"{error['message']} {error['fix']}"
    assert error["fix"]
    assert "Traceback" not in shown.err


@pytest.fixture
def copied(lake: TrainedRun, tmp_path: Path) -> RunDirectory:
    """The run with its latest checkpoint alone."""
    directory = RunDirectory(tmp_path / "copy")
    with directory.opened():
        directory.write(RunDirectory(lake.path).read())
    _, state = open_run(lake.path)
    checkpoint.save(directory.checkpoints, 12, state)
    return directory


def test_a_diverged_run(copied: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    copied.write({**copied.read(), "status": "diverged"})
    assert main(["probe", str(copied.path), *FLAGS]) == 2
    assert "--checkpoint 12" in capsys.readouterr().err


def test_parameters_that_are_not_finite(copied: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = open_run(copied.path)
    model = jax.tree.map(lambda leaf: leaf * jnp.nan, state.learner.network)
    checkpoint.save(copied.checkpoints, 12, state._replace(learner=state.learner._replace(network=model)))
    assert main(["probe", str(copied.path), *FLAGS]) == 2
    assert "not finite" in capsys.readouterr().err


def test_a_run_without_a_checkpoint(copied: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    (copied.checkpoints / "000000012.eqx").unlink()
    assert main(["probe", str(copied.path)]) == 2
    assert "has no checkpoint" in capsys.readouterr().err
    assert main(["probe", str(copied.path / "nowhere")]) == 2
    assert "is not a run directory" in capsys.readouterr().err
