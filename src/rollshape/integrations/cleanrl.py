"""CleanRL: one call in the script, after `returns = advantages + values`.

    from rollshape.integrations.cleanrl import record
    ...
    returns = advantages + values
    record("runs/mine", locals())

It reads CleanRL's variables: args, agent, optimizer, envs, obs, actions, logprobs, rewards, dones, next_done, values,
advantages and returns. In the update it reads mb_inds, b_logprobs, b_returns and b_advantages.
"""

from __future__ import annotations

import atexit
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollshape.integrations.description import describe
from rollshape.integrations.lab_part import Subject
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.recorder import Recorder
from rollshape.integrations.rollout import EndedEpisode, RecordedRollout, to_floats

_RUNS: dict[str, _Run] = {}
MINIBATCH = ("mb_inds", "b_logprobs", "b_returns", "b_advantages")
DISCRETE = ("Discrete", "MultiDiscrete")


def record(path: str | Path, variables: Mapping[str, Any], every: int | None = None, quiet: bool = False) -> None:
    """Record a rollout, given the script's variables. See `Recorder` for the other arguments."""
    if str(path) not in _RUNS:
        _RUNS[str(path)] = _Run(Recorder(path, every, quiet))
    run = _RUNS[str(path)]
    run.recorder.call(run.record, variables)


class _Run:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._agent: Any = None
        self._episode_counts: dict[int, int] = {}

    def record(self, variables: Mapping[str, Any]) -> None:
        if self._agent is None:
            self._start(variables)
        self._finish_update()
        rollout = _rollout(variables, _new_episodes(variables["envs"], self._episode_counts))
        self.recorder.rollout(rollout, lambda: _subject(variables, rollout))
        self._variables = variables
        self._watch_minibatches(variables["agent"])

    def _start(self, variables: Mapping[str, Any]) -> None:
        args, envs = variables["args"], variables["envs"]
        config = dict(vars(args))
        spec = getattr(envs, "spec", None) or getattr(getattr(envs, "envs", [None])[0], "spec", None)
        description = describe(config, "cleanrl", env=config.get("env_id"), seed=config.get("seed"))
        self.recorder.start(description, getattr(spec, "max_episode_steps", None))
        if _new_episodes(envs, {}) is None:
            self.recorder.note("Episode returns are sums of the rewards that the learner receives.")
        self._agent, self._updates, self._total = variables["agent"], 0, description.plan.num_updates
        atexit.register(self._end)

    def _watch_minibatches(self, agent: Any) -> None:
        """Let the agent report the minibatches of this update, which its caller selects by `mb_inds`."""
        evaluate = type(agent).get_action_and_value.__get__(agent)
        self._samples = 0

        def evaluate_and_record(*args: Any, **options: Any) -> Any:
            result = evaluate(*args, **options)
            if len(args) > 1 or "action" in options:
                self.recorder.call(self._add_minibatch, sys._getframe(1).f_locals, result)
            return result

        agent.__dict__["get_action_and_value"] = evaluate_and_record

    def _add_minibatch(self, names: Mapping[str, Any], result: tuple[Any, ...]) -> None:
        """Add a minibatch from the variables of its caller; a script with other names has no such statistics."""
        if not all(name in names for name in MINIBATCH) or len(result) < 4:
            return
        if self._samples % len(names["b_logprobs"]) == 0:
            self.recorder.log.new_epoch()
        self._samples += len(names["mb_inds"])
        old, returns, advantages = (names[name][names["mb_inds"]] for name in MINIBATCH[1:])
        _, log_prob, entropy, values = result[:4]
        self.recorder.log.add(
            log_prob=log_prob, entropy=entropy, values=values, old_log_prob=old, returns=returns, advantages=advantages
        )

    def _finish_update(self) -> None:
        self._agent.__dict__.pop("get_action_and_value", None)
        variables = getattr(self, "_variables", None)
        if variables is None:
            return
        self._updates += 1
        log_std = getattr(self._agent, "actor_logstd", None)
        args = variables["args"]
        self.recorder.update(
            {
                "learning_rate": variables["optimizer"].param_groups[0]["lr"],
                "action_std": None if log_std is None else float(log_std.detach().exp().mean()),
                "policy_loss": self.recorder.log.policy_loss(args.clip_coef, getattr(args, "norm_adv", True)),
            }
        )

    def _end(self) -> None:
        self.recorder.call(self._finish_update)
        self.recorder.end("done" if self._updates == self._total else "interrupted")


def _rollout(variables: Mapping[str, Any], episodes: list[EndedEpisode] | None) -> RecordedRollout:
    begins = to_floats(variables["dones"])  # dones[t]: step t begins an episode
    ended = np.concatenate([begins[1:], to_floats(variables["next_done"])[None]]) > 0
    return RecordedRollout(
        rewards=to_floats(variables["rewards"]),
        values=to_floats(variables["values"]),
        advantages=to_floats(variables["advantages"]),
        returns=to_floats(variables["returns"]),
        ended=ended,
        observations=variables["obs"],
        episodes=episodes,
    )


def _new_episodes(envs: Any, counts: dict[int, int]) -> list[EndedEpisode] | None:
    """Return the episodes that RecordEpisodeStatistics has counted since the last call; None without this wrapper."""
    episodes = []
    for number, env in enumerate(getattr(envs, "envs", None) or [envs]):
        while env is not None and not hasattr(env, "return_queue"):
            env = getattr(env, "env", None)
        if env is None:
            return None
        new = min(env.episode_count - counts.get(number, 0), len(env.return_queue))
        counts[number] = env.episode_count
        pairs = list(zip(env.return_queue, env.length_queue, strict=True))[len(env.return_queue) - new :]
        episodes += [EndedEpisode(float(np.ravel(total)[0]), int(np.ravel(length)[0])) for total, length in pairs]
    return episodes


def _subject(variables: Mapping[str, Any], rollout: RecordedRollout) -> Subject:
    agent, args = variables["agent"], variables["args"]
    if "lstm_state" in inspect.signature(agent.get_action_and_value).parameters:
        raise NotMeasurable("recurrent agents of CleanRL are not supported")
    size = rollout.rewards.size
    obs, actions = (variables[name].reshape(size, *variables[name].shape[2:]) for name in ("obs", "actions"))
    if type(variables["envs"].single_action_space).__name__ in DISCRETE:
        actions = actions.long()

    def evaluate(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        _, log_prob, _, value = agent.get_action_and_value(obs[index], actions[index])
        return log_prob, value.flatten()

    return Subject(
        module=agent,
        evaluate=evaluate,
        log_probs=to_floats(variables["logprobs"]),
        gamma_lambda=args.gamma * args.gae_lambda,
        centered=getattr(args, "norm_adv", True),
        value_targets=rollout.returns,
        value_coef=0.5 * args.vf_coef,
    )
