"""RLlib, new API stack. Ray must be running (see test_rllib.py's fixture)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from peers.drivers import CARTPOLE, SEED, Collected, Counted, Tally, seed_everything

ENV_RUNNERS = ("num_env_runners", "num_envs_per_env_runner", "rollout_fragment_length")
EPISODE_LIMIT = 500  # CartPole's own


class CountingCartPole(gym.Wrapper):
    """CartPole that counts its steps and its ends; RLlib makes as many as it wants, and `made` lists them."""

    made: ClassVar[list[CountingCartPole]] = []

    def __init__(self, context: Mapping[str, Any]) -> None:
        super().__init__(gym.make(CARTPOLE, max_episode_steps=context["episode_limit"]))
        self.steps = self.ends = self.steps_of_episode = 0
        self.made.append(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps_of_episode = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        over = outcome[2] or outcome[3]
        self.steps += 1
        self.ends += over
        self.steps_of_episode = 0 if over else self.steps_of_episode + 1
        return outcome

    @classmethod
    def totals(cls) -> Collected:
        used = [env for env in cls.made if env.steps]
        return Collected(
            env_steps=sum(env.steps for env in used),
            episodes_ended=sum(env.ends for env in used),
            just_ended=sum(env.steps_of_episode == 0 for env in used),
            rows=0,
        )


def _watching_learner(tally: Tally, rows: list[int]) -> type[PPOTorchLearner]:
    class Watched(PPOTorchLearner):
        def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
            tally.new_update()
            super().before_gradient_based_update(timesteps=timesteps)

        def _make_batch_if_necessary(self, training_data: Any) -> Any:
            batch = super()._make_batch_if_necessary(training_data)
            rows.append(len(batch.policy_batches["default_policy"]))
            return batch

        def compute_loss_for_module(self, *, batch: Any, **others: Any) -> Any:
            tally.minibatch(len(batch["actions"]))
            return super().compute_loss_for_module(batch=batch, **others)

    return Watched


def ppo_config(config: Mapping[str, Any], **training: Any) -> PPOConfig:
    """PPOConfig's methods take our keys by their names; a name that they do not have is a TypeError."""
    options = dict(config)
    runners = {name: options.pop(name) for name in ENV_RUNNERS if name in options}
    learners = options.pop("num_learners", 0)
    return (
        PPOConfig()
        .debugging(seed=SEED)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .env_runners(**runners)
        .learners(num_learners=learners)
        .training(**options, **training)
    )


def train(config: Mapping[str, Any], episode_limit: int = EPISODE_LIMIT) -> Counted:
    """Train in this process: the one runner that the config asks for would collect the same (tested), out of sight."""
    assert config["num_env_runners"] == 1
    CountingCartPole.made.clear()
    return _train({**config, "num_env_runners": 0}, CountingCartPole, {"episode_limit": episode_limit})


def train_remotely(config: Mapping[str, Any]) -> Counted:
    """Train with the config's own runners, each in its process; their environments cannot be counted."""
    return _train(config, CARTPOLE, {})


def _train(config: Mapping[str, Any], env: Any, env_config: dict[str, Any]) -> Counted:
    seed_everything()
    options = dict(config)
    iterations = options.pop("training_iteration")
    tally, rows, collected = Tally(), [], []
    learner = _watching_learner(tally, rows)
    algorithm = ppo_config(options, learner_class=learner).environment(env, env_config=env_config).build_algo()
    try:
        with tally.watching():
            for _ in range(iterations):
                past = CountingCartPole.totals()
                algorithm.train()
                collected.append(_since(past, CountingCartPole.totals(), rows[-1]))
        settings = _settings(algorithm)
    finally:
        algorithm.stop()
    return Counted(tally.minibatches, tally.steps, settings, collected=collected)


def _since(past: Collected, now: Collected, rows: int) -> Collected:
    return replace(
        now,
        env_steps=now.env_steps - past.env_steps,
        episodes_ended=now.episodes_ended - past.episodes_ended,
        rows=rows,
    )


def _settings(algorithm: Any) -> dict[str, float]:
    learner = algorithm.learner_group._learner
    config = learner.config
    optimizer = learner.get_optimizer("default_policy")
    settings = {
        "learning_rate": optimizer.param_groups[0]["lr"],
        "gamma": config.gamma,
        "gae_lambda": config.lambda_,
        "clip_range": config.clip_param,
        "entropy_coef": config.entropy_coeff,
        "value_coef": config.vf_loss_coeff,
    }
    return settings | ({"max_grad_norm": config.grad_clip} if config.grad_clip is not None else {})
