"""TRL's PPOTrainer does what Rollshape says that it does, not what `num_mini_batches` says.

It was removed in TRL 1.13; version 1.12 is installed beside the current one, so it trains in another process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from peers.drivers.trl_driver import OLD_TRL, Trained
from rollshape import Plan, RequestError
from rollshape.geometry.dialects import translate
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.registry import LANGUAGE_DIALECTS

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not OLD_TRL.exists(), reason="TRL 1.12 is not installed beside the current one"),
]
PPO = LANGUAGE_DIALECTS["trl:ppo"]
ON_FOUR_GPUS = {
    "rollout.batch_size": 16, "train.batch_size": 4, "train.micro_batch_size": 2, "train.max_epochs": 2,
    "actor.num_gpus_per_node": 1, "train.num_episodes": 1,
}  # fmt: skip
# (per_device_train_batch_size, gradient_accumulation_steps, num_mini_batches, num_ppo_epochs, total_episodes)
SIZES = [(4, 1, 1, 2, 12), (4, 2, 2, 2, 16), (4, 4, 2, 1, 32), (8, 1, 4, 2, 24), (8, 2, 4, 2, 32), (8, 2, 8, 3, 32)]
NAMES = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "num_mini_batches", "num_ppo_epochs",
    "total_episodes",
)  # fmt: skip
REFUSED = dict(zip(NAMES, (4, 2, 3, 1, 16), strict=True))


def configs() -> list[dict[str, Any]]:
    written = translate(ON_FOUR_GPUS, "openrlhf", "trl:ppo").config
    written = {name: value for name, value in written.items() if name != "num_train_epochs"} | {"total_episodes": 32}
    return [*(dict(zip(NAMES, sizes, strict=True)) for sizes in SIZES), written, REFUSED]


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    tests = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "peers.drivers.trl_driver",
         json.dumps([["ppo", config] for config in configs()]), "--old-trl"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return answers


def predicted(config: dict[str, Any]) -> Plan:
    return predict(PPO, read(config, PPO).recipe)


@pytest.mark.parametrize("index", range(len(SIZES) + 1))
def test_trains_as_predicted(results: list[dict[str, Any]], index: int) -> None:
    config, trained = configs()[index], Trained(**results[index])
    foreseen = predicted(config)
    sizes = foreseen.completions
    assert sizes is not None
    assert foreseen.num_updates is not None
    assert trained.optimizer_steps == foreseen.gradient_steps
    assert trained.generated == [foreseen.rollout_size] * foreseen.num_updates
    assert set(trained.microbatches) == {sizes.microbatch_size}
    assert sum(trained.microbatches) == trained.optimizer_steps * foreseen.minibatch_size
    hyper = read(config, PPO).recipe.hyper
    assert trained.settings == pytest.approx({name: hyper[name] for name in trained.settings})


def test_num_mini_batches_does_not_count_optimizer_steps(results: list[dict[str, Any]]) -> None:
    config, trained = configs()[1], Trained(**results[1])
    assert config["num_mini_batches"] == 2
    assert trained.mini_batch_size == 4, "so says the trainer"
    assert trained.optimizer_steps == 2 * 2, "updates × epochs: each step uses all 8 completions"
    warning = predicted(config).findings[0]
    assert warning.rule == "minibatch-accumulation"
    assert "num_mini_batches 2 gives 1 optimizer step" in warning.message


def test_refuses_as_predicted(results: list[dict[str, Any]]) -> None:
    assert "must be a multiple of `num_mini_batches`" in results[-1]["error"]
    with pytest.raises(RequestError, match="trl:ppo rejects this batch: ValueError: `batch_size` must be a multiple"):
        predicted(REFUSED)
