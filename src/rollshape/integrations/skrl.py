"""skrl: one call before `trainer.train()` or `runner.run()`; PPO with the torch backend.

from rollshape.integrations.skrl import record
record(agent, "runs/mine")
trainer.train()
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rollshape.integrations.description import describe
from rollshape.integrations.lab_part import Subject
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.recorder import Recorder
from rollshape.integrations.rollout import RecordedRollout, to_floats
from rollshape.integrations.watching import watched_method


def record(
    agent: Any,
    path: str | Path,
    every: int | None = None,
    quiet: bool = False,
    env: str | None = None,
    horizon: int | None = None,
) -> None:
    """Record an agent. skrl's agents do not know their environment: give its id and time limit if they are known.

    See `Recorder` for the other arguments.
    """
    run = _Run(agent, Recorder(path, every, quiet), env, horizon)
    update, record_transition = agent.update, agent.record_transition
    agent.__dict__["update"] = lambda **options: run.update(update, **options)
    agent.__dict__["record_transition"] = lambda **options: run.step(record_transition, **options)


class _Run:
    def __init__(self, agent: Any, recorder: Recorder, env: str | None, horizon: int | None) -> None:
        self.agent, self.recorder = agent, recorder
        self._env, self._horizon = env, horizon
        self._has_started = False
        self._steps: list[tuple[Any, Any, Any]] = []  # rewards as the environment gave them, terminated, truncated
        self._batch: dict[str, Any] = {}
        self._log_prob: Any = None

    def step(self, original: Any, **options: Any) -> Any:
        kept = (options[name] for name in ("rewards", "terminated", "truncated"))
        self.recorder.call(lambda: self._steps.append(tuple(x.clone() for x in kept)))
        return original(**options)

    def update(self, original: Any, *, timestep: int, timesteps: int) -> Any:
        agent = self.agent
        self.recorder.call(self._record_rollout, timesteps)
        with (
            watched_method(agent.memory, "sample", self._watch_batches),
            watched_method(agent.value, "act", self._watch_act),
            watched_method(agent.policy, "act", self._watch_act),
        ):
            result = original(timestep=timestep, timesteps=timesteps)
        self.recorder.call(self._finish_update)
        if timesteps - timestep - 1 < agent.cfg.rollouts:  # no rollout fits into what is left
            self.recorder.end()
        return result

    def _start(self, timesteps: int) -> None:
        agent = self.agent
        settings = asdict(agent.cfg)
        if isinstance(settings["learning_rate"], (tuple, list)):  # one per optimizer
            settings["learning_rate"] = settings["learning_rate"][0]
        scheduler = agent.scheduler if getattr(agent, "scheduler", None) is not None else None
        settings["learning_rate_scheduler"] = None if scheduler is None else type(scheduler).__name__
        kwargs = settings.get("learning_rate_scheduler_kwargs")
        settings["learning_rate_scheduler_kwargs"] = (kwargs[0] if isinstance(kwargs, (tuple, list)) else kwargs) or {}
        config = {"num_envs": agent.memory.num_envs, "agent": settings, "trainer": {"timesteps": timesteps}}
        self.recorder.start(describe(config, "skrl", version=version("skrl"), env=self._env), self._horizon)
        if agent._value_preprocessor != agent._empty_preprocessor:
            self.recorder.note("value_loss is in the units of the value preprocessor.")
        self._has_started = True

    def _record_rollout(self, timesteps: int) -> None:
        if not self._has_started:
            self._start(timesteps)
        rewards, terminated, truncated = (
            np.stack([to_floats(x).reshape(-1) for x in column]) for column in zip(*self._steps, strict=True)
        )
        self._steps = []
        advantages, values, cuts = _advantages(self.agent, rewards.shape)
        observations = self.agent.memory.get_tensor_by_name("observations")
        with torch.no_grad():
            inputs = self.agent._observation_preprocessor(observations.flatten(0, 1)).reshape(observations.shape)
        rollout = RecordedRollout(
            rewards=rewards,
            values=values,
            advantages=advantages,
            returns=advantages + values,
            ended=(terminated + truncated) > 0,
            truncated=truncated > 0,
            cuts=cuts,
            observations=inputs,
        )
        self.recorder.rollout(rollout, lambda: _subject(self.agent, rollout))

    def _watch_batches(self, original: Any, names: list[str], **options: Any) -> Iterator[Any]:
        self.recorder.log.new_epoch()
        for batch in original(names, **options) if "names" not in options else original(**options):
            self._batch = dict(zip(names, batch, strict=True))
            yield batch

    def _watch_act(self, original: Any, inputs: Any, role: str = "") -> Any:
        result = original(inputs, role=role)
        self.recorder.call(self._add_result, inputs, role, result)
        return result

    def _add_result(self, inputs: Any, role: str, result: Any) -> None:
        """Remember log π of a minibatch; add it when its values are known."""
        if role == "policy" and "taken_actions" in inputs:
            self._log_prob = result[-1]["log_prob"].detach()
        elif role == "value" and self._log_prob is not None and self._batch:
            with torch.no_grad():
                entropy = self.agent.policy.get_entropy(role="policy")
            self.recorder.log.add(
                log_prob=self._log_prob, old_log_prob=self._batch["log_prob"], values=result[0],
                returns=self._batch["returns"], entropy=entropy,
            )  # fmt: skip
            self._log_prob = None

    def _finish_update(self) -> None:
        self._batch, agent = {}, self.agent
        tracked = agent.tracking_data.get("Loss / Policy loss")
        deviation = getattr(agent.policy.distribution(role="policy"), "stddev", None)
        is_gaussian = hasattr(agent.policy.distribution(role="policy"), "loc")
        self.recorder.update(
            {
                "policy_loss": tracked[-1] if tracked else None,
                "learning_rate": agent.optimizer.param_groups[0]["lr"],
                "action_std": float(deviation.detach().mean()) if is_gaussian and deviation is not None else None,
            }
        )


def _advantages(agent: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return skrl's GAE without its normalization, the values, and where GAE stops; skrl computes it in the update."""
    memory, cfg = agent.memory, agent.cfg
    rewards, values, terminated, truncated = (
        to_floats(memory.get_tensor_by_name(name), shape) for name in ("rewards", "values", "terminated", "truncated")
    )
    inputs = {
        "observations": agent._observation_preprocessor(agent._current_next_observations),
        "states": agent._state_preprocessor(agent._current_next_states),
    }
    was_training = agent.value.training
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        agent.value.enable_training_mode(False)
        last, _ = agent.value.act(inputs, role="value")
        agent.value.enable_training_mode(was_training)
        last = to_floats(agent._value_preprocessor(last, inverse=True)).reshape(-1)
    cuts = (terminated + truncated if cfg.time_limit_bootstrap else terminated) > 0
    advantages, advantage = np.zeros(shape), np.zeros(shape[1])
    for step in reversed(range(shape[0])):
        following = values[step + 1] if step < shape[0] - 1 else last
        goes_on = cfg.discount_factor * (1.0 - cuts[step])
        advantage = rewards[step] - values[step] + goes_on * (following + cfg.gae_lambda * advantage)
        advantages[step] = advantage
    return advantages, values, cuts


def _subject(agent: Any, rollout: RecordedRollout) -> Subject:
    if any(isinstance(part, nn.RNNBase) for model in (agent.policy, agent.value) for part in model.modules()):
        raise NotMeasurable("recurrent agents of skrl are not supported")
    memory = agent.memory
    names = [name for name in ("observations", "states", "actions") if name in memory.get_tensor_names()]
    flat: dict[str, Any] = {name: memory.get_tensor_by_name(name).flatten(0, 1) for name in names}

    def evaluate(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = {
            "observations": agent._observation_preprocessor(flat["observations"][index]),
            "states": agent._state_preprocessor(flat["states"][index] if "states" in flat else None),
        }
        _, outputs = agent.policy.act({**inputs, "taken_actions": flat["actions"][index]}, role="policy")
        values, _ = agent.value.act(inputs, role="value")
        return outputs["log_prob"].flatten(), values.flatten()

    returns = torch.as_tensor(rollout.returns, dtype=torch.float32, device=agent.device)
    targets = agent._value_preprocessor(returns.reshape(-1, 1))
    return Subject(
        module=agent.policy if agent.policy is agent.value else nn.ModuleList([agent.policy, agent.value]),
        evaluate=evaluate,
        log_probs=to_floats(memory.get_tensor_by_name("log_prob"), rollout.rewards.shape),
        gamma_lambda=agent.cfg.discount_factor * agent.cfg.gae_lambda,
        centered=True,
        value_targets=to_floats(targets, rollout.rewards.shape),
        value_coef=agent.cfg.value_loss_scale,
    )
