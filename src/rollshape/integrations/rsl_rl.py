"""RSL-RL: one call before `runner.learn`.

from rollshape.integrations.rsl_rl import record
record(runner, "runs/mine")
runner.learn(num_learning_iterations=500)
"""

from __future__ import annotations

from collections.abc import Iterator
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


def record(runner: Any, path: str | Path, every: int | None = None, quiet: bool = False) -> None:
    """Record the next `runner.learn`. See `Recorder` for the other arguments."""
    run = _Run(runner, Recorder(path, every, quiet))
    original = runner.learn

    def learn(num_learning_iterations: int, *args: Any, **options: Any) -> Any:
        runner.__dict__.pop("learn", None)
        run.recorder.call(run.start, num_learning_iterations)
        with (
            watched_method(runner.alg, "process_env_step", run.step),
            watched_method(runner.alg, "update", run.update),
        ):
            try:
                result = original(num_learning_iterations, *args, **options)
            except BaseException:
                run.recorder.end("interrupted")
                raise
        run.recorder.end()
        return result

    runner.__dict__["learn"] = learn


class _Run:
    def __init__(self, runner: Any, recorder: Recorder) -> None:
        self.runner, self.recorder = runner, recorder
        self._steps: list[tuple[Any, Any]] = []  # rewards as the environment gave them, time limits
        self._batch: Any = None
        self._log_prob: Any = None
        self._count = 0

    def start(self, iterations: int) -> None:
        env = self.runner.env
        config = {**self.runner.cfg, "max_iterations": iterations, "num_envs": env.num_envs}
        name = getattr(getattr(getattr(env, "unwrapped", env), "spec", None), "id", None)
        description = describe(config, "rsl_rl", version=version("rsl-rl-lib"), env=name, seed=config.get("seed"))
        self.recorder.start(description, int(env.max_episode_length))

    def step(self, original: Any, obs: Any, rewards: Any, dones: Any, extras: Any) -> Any:
        """RSL-RL adds the bootstrapped value of a time limit to the stored rewards: keep those of the environment."""
        self.recorder.call(self._keep_step, rewards, extras.get("time_outs"))
        return original(obs, rewards, dones, extras)

    def _keep_step(self, rewards: Any, cut: Any) -> None:
        self._steps.append((rewards.clone(), torch.zeros_like(rewards) if cut is None else cut.clone()))

    def update(self, original: Any) -> Any:
        alg = self.runner.alg
        self.recorder.call(self._record_rollout)
        hook = alg.critic.register_forward_hook(lambda *call: self.recorder.call(self._add_minibatch, call[2]))
        with (
            watched_method(alg.storage, "mini_batch_generator", self._watch_batches),
            watched_method(alg.storage, "recurrent_mini_batch_generator", self._watch_batches),
            watched_method(alg.actor, "get_output_log_prob", self._watch_log_prob),
        ):
            try:
                losses = original()
            finally:
                hook.remove()
        self.recorder.call(self._finish_update, losses)
        return losses

    def _record_rollout(self) -> None:
        storage, alg = self.runner.alg.storage, self.runner.alg
        rewards, cut = (np.stack([to_floats(x) for x in column]) for column in zip(*self._steps, strict=True))
        self._steps, self._count = [], 0
        returns, values = (to_floats(x, rewards.shape) for x in (storage.returns, storage.values))
        rollout = RecordedRollout(
            rewards=rewards,
            values=values,
            advantages=returns - values,  # those in the storage are normalized
            returns=returns,
            ended=to_floats(storage.dones, rewards.shape) > 0,
            truncated=cut > 0,
            observations=_observations(alg.actor, storage.observations),
        )
        self.recorder.rollout(rollout, lambda: _subject(alg, rollout))

    def _watch_batches(self, original: Any, *args: Any, **options: Any) -> Iterator[Any]:
        for self._batch in original(*args, **options):
            yield self._batch

    def _watch_log_prob(self, original: Any, *args: Any, **options: Any) -> Any:
        self._log_prob = original(*args, **options)
        return self._log_prob

    def _add_minibatch(self, values: Any) -> None:
        alg, batch = self.runner.alg, self._batch
        if batch is None or self._log_prob is None or self._log_prob.numel() != batch.old_actions_log_prob.numel():
            return  # the critic was called for something else
        if self._count % alg.num_mini_batches == 0:
            self.recorder.log.new_epoch()
        self._count += 1
        keep = slice(None) if batch.masks is None else batch.masks.reshape(-1)
        log_prob, old, value, returns = (
            x.detach().reshape(-1)[keep] for x in (self._log_prob, batch.old_actions_log_prob, values, batch.returns)
        )
        self.recorder.log.add(log_prob=log_prob, old_log_prob=old, values=value, returns=returns)
        self._log_prob = None

    def _finish_update(self, losses: Any) -> None:
        self._batch = None
        alg = self.runner.alg
        self.recorder.update(
            {
                "policy_loss": losses.get("surrogate"),
                "entropy": losses.get("entropy"),
                "learning_rate": alg.optimizer.param_groups[0]["lr"],
                "action_std": float(alg.get_policy().output_std.detach().mean()),
            }
        )


def _observations(actor: Any, stored: Any) -> Any:
    """Return what the policy's network receives, [T, N, F]: normalized where the policy does so. None for images."""
    steps, envs = stored.batch_size[:2]
    if any(stored[group].dim() != 3 for group in actor.obs_groups):
        return None
    with torch.no_grad():
        flat = actor.obs_normalizer(torch.cat([stored[group] for group in actor.obs_groups], -1).flatten(0, 1))
    return flat.reshape(steps, envs, -1)


def _subject(alg: Any, rollout: RecordedRollout) -> Subject:
    if alg.actor.is_recurrent or alg.critic.is_recurrent:
        raise NotMeasurable("recurrent policies of RSL-RL are not supported")
    storage = alg.storage
    observations, actions = storage.observations.flatten(0, 1), storage.actions.flatten(0, 1)

    def evaluate(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = observations[index]
        alg.actor(chosen, stochastic_output=True)
        return alg.actor.get_output_log_prob(actions[index]), alg.critic(chosen).flatten()

    # Gradients of actor and critic are clipped separately: the value loss reaches the policy in shared layers only.
    is_shared = bool({id(p) for p in alg.actor.parameters()} & {id(p) for p in alg.critic.parameters()})
    return Subject(
        module=nn.ModuleList([alg.actor, alg.critic]),
        evaluate=evaluate,
        log_probs=to_floats(storage.actions_log_prob, rollout.rewards.shape),
        gamma_lambda=alg.gamma * alg.lam,
        centered=True,
        value_targets=rollout.returns if is_shared else None,
        value_coef=alg.value_loss_coef,
    )
