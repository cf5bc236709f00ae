"""Two real processes train together with gloo: sizes are per process, and one gradient step uses those of both."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rsl_rl")
pytest.importorskip("skrl")

from rollshape import translate
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

Config = dict[str, Any]
TESTS = Path(__file__).parents[1]
WORLD_SIZE = 2
CONFIGS: dict[str, Config] = {
    "rsl_rl": {
        "num_envs": 6,
        "num_steps_per_env": 5,
        "num_mini_batches": 4,
        "num_learning_epochs": 2,
        "max_iterations": 2,
    },
    "skrl": {"num_envs": 3, "rollouts": 5, "mini_batches": 2, "learning_epochs": 2, "timesteps": 10},
}


def train_together(library: str, configs: list[Config]) -> list[list[Config]]:
    """Return what each process counted, for each config."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = []
    for rank in range(WORLD_SIZE):
        ranks = {"WORLD_SIZE": str(WORLD_SIZE), "RANK": str(rank), "LOCAL_RANK": str(rank)}
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join([str(TESTS), *sys.path])
        workers.append(
            subprocess.Popen(
                [sys.executable, "-m", "peers.drivers.rank_worker", library, json.dumps(configs)],
                env={**os.environ, **ranks, **address, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        outputs = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (_, errors) in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, errors[-2000:]
    ranks = [json.loads(output.strip().splitlines()[-1]) for output, _ in outputs]
    return [list(counted) for counted in zip(*ranks, strict=True)]


@pytest.mark.parametrize("library", CONFIGS)
def test_two_processes_share_each_gradient_step(library: str) -> None:
    source = {"n_envs": 8, "n_steps": 6, "batch_size": 12, "n_epochs": 2, "n_timesteps": 96}
    translation = translate(source, "sb3", library, world_size=WORLD_SIZE)
    counted, translated = train_together(library, [CONFIGS[library], translation.config])
    check_shared(library, CONFIGS[library], counted)
    check_shared(library, translation.config, translated)
    plan = translation.plan
    assert (plan.num_envs, plan.rollout_size, plan.minibatch_size, plan.num_updates) == (8, 48, 12, 2)
    for rank in translated:
        assert rank["minibatches"] == [[6] * 4 * 2] * 2
        assert rank["steps"] == [8, 8]


def check_shared(library: str, config: Config, counted: list[Config]) -> None:
    """The minibatches of all processes add up to those of the plan, and all end with the same parameters."""
    plan = predict(DIALECTS[library], read(config, DIALECTS[library], world_size=WORLD_SIZE).recipe)
    for rank in counted:
        assert rank["steps"] == [plan.gradient_steps_per_update] * plan.num_updates
    together = [
        [sum(sizes) for sizes in zip(*update, strict=True)]
        for update in zip(*(rank["minibatches"] for rank in counted), strict=True)
    ]
    assert together == [plan.split.sizes() * plan.num_epochs] * plan.num_updates
    assert plan.num_envs == WORLD_SIZE * config["num_envs"]
    assert sum(together[0]) == plan.num_epochs * (plan.rollout_size - plan.dropped)
    assert counted[0]["parameters"] == counted[1]["parameters"]
