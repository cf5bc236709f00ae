"""A study's probes: the first seed of a point, at the checkpoints nearest to the shares that are asked for."""

from pathlib import Path

import pytest

from rollshape.errors import RequestError
from rollshape.reports.report import write_report
from rollshape.studies.run import run_study
from rollshape.studies.study import Study
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trial_probes import can_collect_batches, probe_trial
from rollshape.studies.trials import expand
from rollshape.training.spec import Spec


def tiny(**more: object) -> Study:
    values = {
        "env": "FrozenLake-v1", "fixed": {"num_steps": 2, "num_epochs": 1, "num_minibatches": 1,
                                          "total_timesteps": 160, "hidden_sizes": [4]},
        "points": [{"num_envs": 2}], "seeds": 2, "probe": {"at": [0.5, 1.0], "num_envs": 32}, **more,
    }  # fmt: skip
    return study_from_dict(values, "tiny")


@pytest.mark.slow
def test_the_first_seed_is_probed_and_its_report_tests_nothing_with_one_shape(tmp_path: Path) -> None:
    outcome = run_study(tiny(), tmp_path / "out", jobs=1)
    assert outcome.is_finished
    first, second = outcome.trials
    found = outcome.store.probes(first.id)
    assert outcome.store.probes(second.id) == {}
    assert [document["update"] for document in found.values()] == [20, 40]
    assert found[0.5]["horizon"] == found[1.0]["horizon"]  # measured once, over all that was kept
    assert len(found[0.5]["horizon"]["checkpoints"]) > 1
    assert found[0.5]["geometry"]["probe_envs"] == 32
    assert found[0.5]["command"].startswith("rollshape probe RUN_DIR --checkpoint 20 ")
    assert found[0.5]["pictures"]
    assert found[0.5]["collected"] is None
    assert found[1.0]["collected"]["variance"] > 0
    assert len(found[1.0]["sizes"]) > 1
    known = {0.5: found[0.5]}
    [(share, again)] = list(probe_trial(outcome.store.run_dir(first.id), (0.5, 1.0), 32, known))
    assert (share, again) == (1.0, found[1.0])  # a killed worker's probes go on as if it had lived
    file = outcome.store.probe_files(first.id)[1.0]
    file.write_text(file.read_text().replace('"update": 40', '"update": 41'))
    lines = len(list(outcome.store.journal.events()))
    assert run_study(tiny(), tmp_path / "out", jobs=1).store.probes(first.id) == found  # measured again
    assert len(list(outcome.store.journal.events())) == lines + 1  # this run of the study; the trial ended before
    text = write_report(tmp_path / "out").html.read_text()
    assert "collected batches" in text
    assert '<figure id="surface-0"' in text
    assert '<figure id="predicted-0"' not in text


def test_what_can_be_asked_of_probes() -> None:
    assert [trial.probe_at for trial in expand(tiny()).trials] == [(0.5, 1.0), ()]
    assert tiny().to_dict()["probe"] == {"at": [0.5, 1.0], "num_envs": 32}
    assert tiny(probe={"at": [0.5]}).probe_envs == 256
    for wrong in (31, 64.5, True, "many"):
        with pytest.raises(RequestError, match="num_envs is"):
            tiny(probe={"num_envs": wrong})


@pytest.mark.parametrize(
    ("env", "num_envs", "enough"),
    [("envpool:HalfCheetah-v5", 64, True), ("envpool:HalfCheetah-v5", 128, False), ("CartPole-v1", 1024, True)],
)
def test_batches_of_host_environments_must_be_affordable(env: str, num_envs: int, enough: bool) -> None:
    """HalfCheetah's episodes have 1,000 steps: 8 batches of 128 environments burn in more than 4 × 300k."""
    spec = Spec(env=env, num_envs=num_envs, rollout_size=2048, total_timesteps=300_000)
    assert can_collect_batches(spec) is enough


def test_metaworld_takes_at_most_512_environments() -> None:
    points = [{"num_envs": 256}, {"num_envs": 2048}]
    fixed = {"num_steps": 4, "total_timesteps": 10_000}
    found = expand(tiny(env="envpool:MetaWorld/Push-v3", points=points, fixed=fixed))
    assert [trial.plan.num_envs for trial in found.trials] == [256, 256]
    (illegal,) = found.illegal
    assert "30.7 GB" in illegal.message
