"""TRL's GRPOTrainer and RLOOTrainer do what Rollshape says that they do."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from peers.drivers.trl_driver import PROMPTS, Trained, train
from rollshape import Plan, RequestError, plan
from rollshape.geometry.dialects import fit_config, translate
from rollshape.geometry.dialects.language import size_config
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.registry import LANGUAGE_DIALECTS

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

CASES: dict[str, dict[str, Any]] = {
    "one step per generation": {"gradient_accumulation_steps": 2, "num_generations": 4, "max_steps": 3},
    "four steps, two iterations": {
        "steps_per_generation": 4, "num_iterations": 2, "num_generations": 4, "max_steps": 16,
    },
    "accumulated, two steps": {"gradient_accumulation_steps": 2, "steps_per_generation": 4, "num_generations": 8,
                               "max_steps": 4},
    "several generations per step": {"gradient_accumulation_steps": 4, "steps_per_generation": 2, "num_generations": 4,
                                     "max_steps": 3},
    "by generation_batch_size": {"gradient_accumulation_steps": 2, "generation_batch_size": 16, "num_generations": 2,
                                 "num_iterations": 3, "max_steps": 12},
    "stopped within an update": {"steps_per_generation": 4, "num_generations": 4, "max_steps": 6},
}  # fmt: skip
REFUSED: dict[str, dict[str, Any]] = {
    "no whole groups": {"num_generations": 8},
    "generation batch": {"generation_batch_size": 6, "num_generations": 2},
    "both": {"generation_batch_size": 8, "steps_per_generation": 2, "num_generations": 2},
    "one generation": {"num_generations": 1},
}


def predicted(dialect: str, config: dict[str, Any]) -> Plan:
    library = LANGUAGE_DIALECTS[dialect]
    return predict(library, read(config, library).recipe)


def check(trained: Trained, foreseen: Plan, ranks: int = 1) -> None:
    """Optimizer steps, completions per update and per step, and the batch of a GPU are those foreseen."""
    sizes = foreseen.completions
    assert sizes is not None
    assert foreseen.num_updates is not None
    assert trained.optimizer_steps == foreseen.gradient_steps
    assert sum(trained.generated) * ranks == foreseen.num_updates * foreseen.rollout_size
    assert set(trained.microbatches) == {sizes.microbatch_size}
    assert len(trained.microbatches) == trained.optimizer_steps * sizes.gradient_accumulation_steps
    per_step = ranks * sum(trained.microbatches) // trained.optimizer_steps
    assert per_step == foreseen.minibatch_size


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
@pytest.mark.parametrize("name", CASES)
def test_trains_as_predicted(kind: str, name: str) -> None:
    config = {"per_device_train_batch_size": 4, "beta": 0.0, **CASES[name]}
    trained = train(kind, config)
    check(trained, predicted(f"trl:{kind}", config))
    hyper = read(config, LANGUAGE_DIALECTS[f"trl:{kind}"]).recipe.hyper
    assert trained.settings == pytest.approx({name: hyper[name] for name in trained.settings})


def test_a_pass_over_the_dataset() -> None:
    config = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 4,
              "steps_per_generation": 4, "num_train_epochs": 1}  # fmt: skip
    foreseen = plan(algo="grpo", num_generations=4, num_minibatches=2, microbatch_size=4, minibatch_size=8,
                    dataset_size=PROMPTS)  # fmt: skip
    check(train("grpo", config), foreseen)


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_as_predicted_and_trains_after_a_patch(name: str) -> None:
    config = {"per_device_train_batch_size": 4, "max_steps": 2, **REFUSED[name]}
    with pytest.raises(ValueError, match=r"divisible|both|at least 2"):
        train("grpo", config)
    with pytest.raises(RequestError, match="trl:grpo rejects this batch: ValueError: "):
        predicted("trl:grpo", config)
    if name != "both":  # the user must decide which one
        fitted = fit_config(config, "trl:grpo", verbose=False)
        check(train("grpo", fitted), predicted("trl:grpo", fitted))


def test_trains_as_predicted_on_what_we_wrote() -> None:
    verl = {
        "data.train_batch_size": 4, "actor_rollout_ref.rollout.n": 4, "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4, "actor_rollout_ref.actor.ppo_epochs": 2,
        "trainer.n_gpus_per_node": 1, "trainer.total_training_steps": 2, "algorithm.adv_estimator": "grpo",
    }  # fmt: skip
    translation = translate(verl, "verl", "trl:grpo")
    check(train("grpo", translation.config), translation.plan)
    assert translation.plan.gradient_steps == 8
    planned = plan(algo="grpo", num_prompts=6, num_generations=4, num_minibatches=3, microbatch_size=2, num_updates=2)
    check(train("grpo", size_config(LANGUAGE_DIALECTS["trl:grpo"], planned)), planned)


def test_two_processes() -> None:
    config = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "steps_per_generation": 4,
              "num_generations": 8, "max_steps": 4}  # fmt: skip
    foreseen = predicted("trl:grpo", config | {"num_processes": 2})
    assert (foreseen.rollout_size, foreseen.minibatch_size, foreseen.num_updates) == (16, 8, 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "peers.drivers.trl_driver", json.dumps([["grpo", config]])],
            env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(port),
                              "MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true",
                              "PYTHONPATH": _python_path()},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-2000:]
        result = json.loads(out.splitlines()[-1])[0]
        assert "error" not in result, result
        check(Trained(**result), foreseen, ranks=2)


def _python_path() -> str:
    tests = Path(__file__).parents[1]
    return os.pathsep.join([str(tests), str(tests.parent / "src"), os.environ.get("PYTHONPATH", "")])
