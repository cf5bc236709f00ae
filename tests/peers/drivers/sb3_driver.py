"""Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.env_util import make_vec_env

from peers.drivers import CARTPOLE, SEED, Counted, Tally, before, each, seed_everything

KL_SLACK = 1.5  # PPO.train stops at 1.5 × target_kl


def train(config: Mapping[str, Any], algorithm: type[PPO] | type[A2C] = PPO, policy: str = "MlpPolicy") -> Counted:
    seed_everything()
    arguments = dict(config)
    num_envs, budget = arguments.pop("n_envs"), arguments.pop("n_timesteps")
    env = make_vec_env(CARTPOLE, num_envs, seed=SEED)
    model = algorithm(policy, env, seed=SEED, device="cpu", policy_kwargs={"net_arch": [16]}, **arguments)
    tally = Tally()
    before(model, "train", tally.new_update)
    each(model.rollout_buffer, "get", lambda batch: tally.minibatch(_num_samples(batch)))
    with tally.watching():
        model.learn(budget)
    return Counted(tally.minibatches, tally.steps, _settings(model))


def _num_samples(batch: Any) -> int:
    """The samples of a minibatch; a recurrent one is padded, and its mask says with what."""
    mask = getattr(batch, "mask", None)
    return len(batch.actions) if mask is None else int((mask > 0).sum())


def _settings(model: PPO | A2C) -> dict[str, float]:
    settings = {
        "learning_rate": model.policy.optimizer.param_groups[0]["lr"],
        "gamma": model.gamma,
        "gae_lambda": model.gae_lambda,
        "entropy_coef": model.ent_coef,
        "value_coef": model.vf_coef,
        "max_grad_norm": model.max_grad_norm,
    }
    if not isinstance(model, PPO) and not hasattr(model, "clip_range"):  # A2C
        return settings
    settings["clip_range"] = model.clip_range(1.0)
    return settings | ({"target_kl": KL_SLACK * model.target_kl} if model.target_kl is not None else {})
