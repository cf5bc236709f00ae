"""Stable-Baselines3: PPO, A2C and sb3-contrib's RecurrentPPO.

from rollshape.integrations.sb3 import RollshapeCallback
model.learn(1_000_000, callback=RollshapeCallback("runs/mine"))
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from rollshape.integrations.description import RunDescription, describe
from rollshape.integrations.lab_part import Subject
from rollshape.integrations.recorder import Recorder
from rollshape.integrations.rollout import EndedEpisode, RecordedRollout, to_floats
from rollshape.integrations.update_log import UpdateLog

DIALECTS = {"PPO": "sb3", "A2C": "sb3:a2c", "RecurrentPPO": "sb3:recurrent_ppo"}
CONFIG = (
    "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "target_kl",
    "normalize_advantage", "use_sde", "seed",
)  # fmt: skip


class RollshapeCallback(BaseCallback):  # type: ignore[misc]
    """Record a run, and measure the gradient of its policy. See `Recorder` for the arguments."""

    def __init__(self, path: str | Path, every: int | None = None, quiet: bool = False) -> None:
        super().__init__()
        self._options = (path, every, quiet)
        self.recorder = Recorder(*self._options)
        self._has_ended = False
        self._steps: list[tuple[Any, Any, Any]] = []  # rewards, ended, truncated
        self._episodes: list[EndedEpisode] = []

    def _on_training_start(self) -> None:
        if self._has_ended:  # learn() is called again: another run
            self.recorder, self._has_ended = Recorder(*self._options), False
        self.recorder.call(self._begin)

    def _begin(self) -> None:
        spec = _environment(self.training_env)
        self.recorder.start(_description(self.model, spec), getattr(spec, "max_episode_steps", None))

    def _on_step(self) -> bool:
        self.recorder.call(self._record_step)
        return True

    def _record_step(self) -> None:
        ended, infos = self.locals["dones"], self.locals["infos"]
        cut = np.zeros(len(ended), bool)
        for env in np.flatnonzero(ended):
            cut[env] = infos[env].get("TimeLimit.truncated", False)
            if "episode" in infos[env]:  # of a Monitor: not normalized
                episode = infos[env]["episode"]
                success = infos[env].get("is_success")
                self._episodes.append(EndedEpisode(float(episode["r"]), int(episode["l"]), success))
        # SB3 adds the bootstrapped value of a time limit to the rewards after this call.
        self._steps.append((np.array(self.locals["rewards"], np.float64), np.array(ended), cut))

    def _on_rollout_start(self) -> None:
        self.recorder.call(self._finish_update)
        self._steps, self._episodes = [], []

    def _on_rollout_end(self) -> None:
        self.recorder.call(self._record_rollout)

    def _record_rollout(self) -> None:
        buffer = self.model.rollout_buffer  # [T, N] now: get() flattens it in place
        rewards, ended, cut = (np.stack(column) for column in zip(*self._steps, strict=True))
        has_monitor = bool(self._episodes) or not ended.any()
        if not has_monitor and getattr(self.training_env, "norm_reward", False):
            has_monitor = True  # without known returns: sums of normalized rewards are none
            self.recorder.note("Rewards are normalized and there is no Monitor: episode returns are unknown.")
        rollout = RecordedRollout(
            rewards=rewards,
            values=to_floats(buffer.values),
            advantages=to_floats(buffer.advantages),
            returns=to_floats(buffer.returns),
            ended=ended.astype(bool),
            truncated=cut,
            observations=buffer.observations,
            episodes=self._episodes if has_monitor else None,
        )
        self.recorder.rollout(rollout, lambda: _subject(self.model), is_slow=hasattr(buffer, "hidden_states_pi"))
        self._watch_minibatches()

    def _watch_minibatches(self) -> None:
        """Let the buffer and the policy report what the minibatches of this update are, until it has ended."""
        model, log = self.model, self.recorder.log
        current: dict[str, Any] = {}
        is_ppo = hasattr(model, "clip_range")  # A2C has no ratio
        get, evaluate = model.rollout_buffer.get, model.policy.evaluate_actions

        def watched_get(*args: Any, **options: Any) -> Iterator[Any]:
            log.new_epoch()
            for samples in get(*args, **options):
                current["samples"] = samples
                yield samples

        def watched_evaluate(*args: Any, **options: Any) -> Any:
            result = evaluate(*args, **options)
            self.recorder.call(_add_minibatch, log, current.get("samples"), result, is_ppo)
            return result

        model.rollout_buffer.get, model.policy.evaluate_actions = watched_get, watched_evaluate

    def _finish_update(self) -> None:
        for owner, name in ((self.model.rollout_buffer, "get"), (self.model.policy, "evaluate_actions")):
            owner.__dict__.pop(name, None)
        logged = self.logger.name_to_value
        log_std = getattr(self.model.policy, "log_std", None)
        self.recorder.update(
            {
                "policy_loss": logged.get("train/policy_gradient_loss", logged.get("train/policy_loss")),
                "learning_rate": self.model.policy.optimizer.param_groups[0]["lr"],
                "action_std": None if log_std is None else float(log_std.detach().exp().mean()),
            }
        )

    def _on_training_end(self) -> None:
        self.recorder.call(self._finish_update)
        self.recorder.end()
        self._has_ended = True


def _add_minibatch(log: UpdateLog, samples: Any, result: Any, is_ppo: bool) -> None:
    if samples is None:
        return
    values, log_prob, entropy = result
    fields = {
        "log_prob": log_prob, "old_log_prob": samples.old_log_prob if is_ppo else None, "values": values,
        "returns": samples.returns, "entropy": entropy,
    }  # fmt: skip
    mask = getattr(samples, "mask", None)
    if mask is not None:  # RecurrentPPO pads sequences
        keep = mask > 1e-8
        fields = {name: None if x is None else x.detach().flatten()[keep] for name, x in fields.items()}
    log.add(**fields)


def _description(model: Any, spec: Any) -> RunDescription:
    config = {name: getattr(model, name) for name in CONFIG if getattr(model, name, None) is not None}
    config |= {"n_envs": model.n_envs, "n_timesteps": model._total_timesteps, "policy": type(model.policy).__name__}
    config["learning_rate"] = float(model.lr_schedule(1.0))  # a schedule at its start
    if hasattr(model, "clip_range"):
        config["clip_range"] = float(model.clip_range(1.0))
    dialect = DIALECTS.get(type(model).__name__, "sb3:a2c" if not hasattr(model, "n_epochs") else "sb3")
    return describe(
        config, dialect, version=version("stable-baselines3"), env=getattr(spec, "id", None), seed=model.seed
    )


def _environment(env: Any) -> Any:
    """Return Gymnasium's specification of the environment, None if it has none."""
    try:
        return env.get_attr("spec", 0)[0]
    except Exception:
        return None


def _subject(model: Any) -> Subject:
    buffer, policy, space = model.rollout_buffer, model.policy, model.action_space
    steps, envs = buffer.rewards.shape

    def flat(array: Any) -> torch.Tensor:
        return torch.as_tensor(array.reshape(steps * envs, *array.shape[2:]), device=model.device)

    observations = buffer.observations
    inputs = {k: flat(v) for k, v in observations.items()} if isinstance(observations, dict) else flat(observations)
    actions = flat(buffer.actions)
    actions = actions.long().flatten() if type(space).__name__ == "Discrete" else actions.float()

    is_recurrent = hasattr(buffer, "hidden_states_pi")

    def evaluate(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = {k: v[index] for k, v in inputs.items()} if isinstance(inputs, dict) else inputs[index]
        memory = _memory(buffer, index, envs, model.device) if is_recurrent else ()
        values, log_prob, _ = policy.evaluate_actions(chosen, actions[index], *memory)
        return log_prob, values.flatten()

    return Subject(
        module=policy,
        evaluate=evaluate,
        log_probs=to_floats(buffer.log_probs),
        gamma_lambda=model.gamma * model.gae_lambda,
        centered=model.normalize_advantage,
        value_targets=to_floats(buffer.returns),
        value_coef=model.vf_coef,
        recurrent=is_recurrent,
    )


def _memory(buffer: Any, index: torch.Tensor, envs: int, device: Any) -> tuple[Any, torch.Tensor]:
    """Return RecurrentPPO's LSTM states at the first step of one environment, and where its episodes begin."""
    from sb3_contrib.common.recurrent.type_aliases import RNNStates

    step, env = divmod(int(index[0]), envs)

    def state(name: str) -> torch.Tensor:
        return torch.as_tensor(getattr(buffer, name)[step][:, [env]], device=device)

    states = RNNStates(
        (state("hidden_states_pi"), state("cell_states_pi")), (state("hidden_states_vf"), state("cell_states_vf"))
    )
    begins = torch.as_tensor(buffer.episode_starts.reshape(-1), device=device)[index]
    return states, begins
