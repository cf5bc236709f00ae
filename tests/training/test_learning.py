"""A short ladder: toy environments with known answers."""

from pathlib import Path

import pytest

from rollshape.envs.tabular import delay_chain
from rollshape.training.run import train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_a_bandit_with_context_is_solved(algo: str, tmp_path: Path) -> None:
    """The chain of period 2 pays 1 every second step for the action that matches the context: 500 in 1,000 steps."""
    env = "tabular:DelayChain-v0"
    assert delay_chain().max_steps is None
    run = train(
        env=env, env_kwargs={"delay": 1, "period": 2, "mixing": 2.0}, algo=algo, num_envs=32, num_steps=16,
        total_timesteps=60_000, learning_rate=1e-2, hidden_sizes=(32,), gamma=0.5, out=tmp_path / "x",
    )  # fmt: skip
    assert run.final_return is not None
    assert run.final_return > 450  # chance gives 250


def test_cartpole_is_balanced(tmp_path: Path) -> None:
    run = train(
        num_envs=32, num_steps=64, total_timesteps=120_000, learning_rate=3e-3, anneal_lr=True, num_epochs=8,
        out=tmp_path / "x",
    )  # fmt: skip
    assert run.final_return is not None
    assert run.final_return > 300  # 22 before training
