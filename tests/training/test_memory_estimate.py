"""The planned memory of a run's arrays, compared with the buffers that XLA allocates for the compiled program."""

from typing import Any

import pytest

from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import checked_spec

WORK = ("rollout_bytes", "copy_bytes", "minibatch_bytes", "gradient_bytes", "activation_bytes")
STATE = ("parameter_bytes", "optimizer_bytes", "replay_bytes")
RUNS: dict[str, dict[str, Any]] = {
    "rollout": {"num_envs": 4096, "num_steps": 64, "num_minibatches": 8},
    "full batch": {"algo": "a2c", "num_envs": 4096, "num_steps": 64},
    "environments": {"num_envs": 8192, "num_steps": 2, "num_minibatches": 8, "hidden_sizes": (256, 256)},
    "network": {"num_envs": 8, "num_steps": 64, "num_minibatches": 2, "hidden_sizes": (512, 512)},
    "host": {"env": "gymnasium:CartPole-v1", "num_envs": 8, "num_steps": 4096, "num_minibatches": 32},
}
MORE_RUNS: dict[str, dict[str, Any]] = {
    "average": {"algo": "ppo-ewma", "num_envs": 8, "num_steps": 32, "num_minibatches": 1, "hidden_sizes": (512, 512)},
    "activations": {"num_envs": 64, "num_steps": 64, "num_minibatches": 1, "microbatch_size": 2048, "num_epochs": 1},
    "batches": {"algo": "sac", "env": "Pendulum-v1", "num_envs": 4, "transition_batch_size": 4096},
    "target KL": {"num_envs": 8, "num_steps": 64, "num_minibatches": 2, "hidden_sizes": (512, 512), "target_kl": 0.1},
}


@pytest.mark.parametrize("name", [*RUNS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_RUNS)])
def test_planned_arrays_are_those_of_the_compiled_program(name: str) -> None:
    spec = checked_spec(total_timesteps=10**6, **(RUNS | MORE_RUNS)[name])
    plan = plan_run(spec)
    assert plan.memory is not None
    driver = new_driver(spec, plan)
    driver.compile()
    program: Any = getattr(driver._program, "run", driver._program)
    analysis = program.memory_analysis()  # of one shard
    driver.close()
    planned = sum(getattr(plan.memory, part) for part in (*WORK, *STATE))
    allocated = driver.layout.num_shards * (analysis.argument_size_in_bytes + analysis.temp_size_in_bytes)
    assert allocated == pytest.approx(planned, rel=0.25)
