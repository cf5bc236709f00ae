"""rl_games."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from peers.drivers import CARTPOLE, SEED, Counted, Tally, before, seed_everything

with warnings.catch_warnings(action="ignore"):  # rl_games compiles a network when it is imported, and torch complains
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.a2c_common import A2CBase
    from rl_games.common.algo_observer import AlgoObserver
    from rl_games.common.ivecenv import IVecEnv
    from rl_games.torch_runner import Runner

VALUE_FACTOR = 0.5  # loss = … + 0.5 · critic_coef · mean((V − R)²)

# Keys that rl_games demands or that keep it quiet and on the CPU; Rollshape has no word for them.
UNSAID = {
    "name": "peers",
    "env_name": "peers-cartpole",
    "device": "cpu",
    "torch_compile": False,
    "print_stats": False,
    "save_best_after": 10**9,
    "reward_shaper": {"scale_value": 1.0},
    "normalize_advantage": True,
    "normalize_input": False,
    "clip_value": False,
}
NETWORK = {
    "name": "actor_critic",
    "separate": False,
    "space": {"discrete": None},
    "mlp": {"units": [16], "activation": "tanh", "initializer": {"name": "default"}},
}


RECURRENT = NETWORK | {"rnn": {"name": "lstm", "units": 8, "layers": 1}}


class CartPoles(IVecEnv):
    """Gymnasium's CartPole as a vector environment of rl_games, in this process; an agent is a CartPole of its own."""

    def __init__(self, _: str, num_actors: int, agents: int = 1, **__: Any) -> None:
        self.agents = agents
        self.env = gym.make_vec(
            CARTPOLE,
            num_envs=num_actors * agents,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        )

    def reset(self) -> np.ndarray:
        return self.env.reset(seed=SEED)[0].astype(np.float32)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observations, rewards, ended, cut, _ = self.env.step(np.asarray(actions))
        return observations.astype(np.float32), rewards.astype(np.float32), ended | cut, {"time_outs": cut & ~ended}

    def get_env_info(self) -> dict[str, Any]:
        return {
            "observation_space": self.env.single_observation_space,
            "action_space": self.env.single_action_space,
            "agents": self.agents,
        }


vecenv.register("PEERS", CartPoles)
env_configurations.register("peers-cartpole", {"vecenv_type": "PEERS", "env_creator": None})


class Watcher(AlgoObserver):
    """rl_games hands the agent to its observer as soon as it is built."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.agent: A2CBase | None = None

    def after_init(self, algo: A2CBase) -> None:
        self.agent = algo
        before(algo, "train_epoch", self.tally.new_update)
        before(algo, "train_actor_critic", lambda batch: self.tally.minibatch(len(batch["actions"])))


def agent_config(config: Mapping[str, Any], network: Mapping[str, Any] = NETWORK) -> dict[str, Any]:
    """A whole agent file of rl_games around a flat config."""
    return {
        "params": {
            "seed": SEED,
            "torch_threads": 1,
            "algo": {"name": "a2c_discrete"},
            "model": {"name": "discrete_a2c"},
            "network": dict(network),
            "config": {**UNSAID, **config},
        }
    }


def train(config: Mapping[str, Any]) -> Counted:
    return run(agent_config(config))


def run(agent_cfg: dict[str, Any]) -> Counted:
    """Train on a whole agent file, as `rl_games.torch_runner` does."""
    seed_everything()
    tally = Tally()
    watcher = Watcher(tally)
    runner = Runner(watcher)
    with tempfile.TemporaryDirectory() as scratch, tally.watching():
        runner.load(agent_cfg)
        runner.params["config"]["train_dir"] = scratch
        runner.run({"train": True})
        watcher.agent.writer.close()
    return Counted(tally.minibatches, tally.steps, _settings(watcher.agent))


def _settings(agent: A2CBase) -> dict[str, float]:
    settings = {
        "learning_rate": agent.config["learning_rate"],
        "gamma": agent.gamma,
        "gae_lambda": agent.tau,
        "clip_range": agent.e_clip,
        "entropy_coef": agent.entropy_coef,
        "value_coef": VALUE_FACTOR * agent.critic_coef,
    }
    if agent.truncate_grads:
        settings["max_grad_norm"] = agent.grad_norm
    if agent.is_adaptive_lr:
        settings["adaptive_kl"] = agent.scheduler.kl_threshold
    else:
        settings["learning_rate"] = agent.optimizer.param_groups[0]["lr"]
    return settings
