"""rl_games: an observer of the runner.

from rollshape.integrations.rl_games import RollshapeObserver
runner = Runner(RollshapeObserver("runs/mine"))
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rl_games.common.algo_observer import AlgoObserver, DefaultAlgoObserver

from rollshape.integrations.description import describe
from rollshape.integrations.lab_part import Subject
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.recorder import Recorder
from rollshape.integrations.rollout import RecordedRollout, to_floats
from rollshape.integrations.watching import watched_method


class RollshapeObserver(AlgoObserver):  # type: ignore[misc]
    """Record a run. `observer` is another observer to call, rl_games' default if None.

    `horizon` is the time limit of the environment, if it is known. See `Recorder` for the other arguments.
    """

    def __init__(
        self,
        path: str | Path,
        observer: Any = None,
        every: int | None = None,
        quiet: bool = False,
        horizon: int | None = None,
    ) -> None:
        super().__init__()
        self.recorder = Recorder(path, every, quiet)
        self._observer, self._horizon = observer or DefaultAlgoObserver(), horizon
        self._steps: list[tuple[Any, Any]] = []  # rewards as the environment gave them, time limits
        self._advantages: Any = None
        self._minibatch: Any = None
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        """Pass all other calls of rl_games to the other observer."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._observer, name)

    def before_init(self, base_name: str, config: Any, experiment_name: str) -> None:
        self._observer.before_init(base_name, config, experiment_name)

    def process_infos(self, infos: Any, done_indices: Any) -> None:
        self._observer.process_infos(infos, done_indices)

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        self._observer.after_print_stats(frame, epoch_num, total_time)

    def after_init(self, algo: Any) -> None:
        self._observer.after_init(algo)
        self.algo, original = algo, algo.train

        def train(*args: Any, **options: Any) -> Any:
            algo.__dict__.pop("train", None)
            self.recorder.call(self._start)
            hook = algo.model.register_forward_hook(lambda *call: self.recorder.call(self._add_minibatch, call[2]))
            with (
                watched_method(algo, "env_step", self._watch_step),
                watched_method(algo, "discount_values", self._watch_advantages),
                watched_method(algo, "discount_values_masks", self._watch_advantages),
                watched_method(algo, "train_actor_critic", self._watch_minibatch),
                watched_method(algo, "train_epoch", self._watch_epoch),
            ):
                try:
                    result = original(*args, **options)
                except BaseException:
                    self.recorder.end("interrupted")
                    raise
                finally:
                    hook.remove()
            self.recorder.end()
            return result

        algo.__dict__["train"] = train

    def after_steps(self) -> None:
        self._observer.after_steps()
        self.recorder.call(self._record_rollout)

    def _start(self) -> None:
        config = {key: value for key, value in self.algo.config.items() if key not in ("features", "vec_env")}
        description = describe(config, "rl_games", version=version("rl-games"), env=config.get("env_name"))
        self.recorder.start(description, self._horizon)
        if self.algo.normalize_value:
            self.recorder.note("value_loss is in the units of normalized values.")

    def _watch_step(self, original: Any, actions: Any) -> Any:
        result = original(actions)
        self.recorder.call(self._keep_step, result[1], result[3])
        return result

    def _keep_step(self, rewards: Any, infos: Any) -> None:
        cut = infos.get("time_outs") if isinstance(infos, dict) else None
        self._steps.append((to_floats(rewards).reshape(-1), None if cut is None else to_floats(cut).reshape(-1)))

    def _watch_advantages(self, original: Any, *args: Any) -> Any:
        self._advantages = original(*args)
        return self._advantages

    def _watch_epoch(self, original: Any) -> Any:
        result = original()
        self.recorder.call(self._finish_update, result)
        return result

    def _watch_minibatch(self, original: Any, minibatch: Any, *args: Any, **options: Any) -> Any:
        if self._count % len(self.algo.dataset) == 0:
            self.recorder.log.new_epoch()
        self._count += 1
        self._minibatch = minibatch
        try:
            return original(minibatch, *args, **options)
        finally:
            self._minibatch = None

    def _add_minibatch(self, result: Any) -> None:
        """Add what the network returned for a minibatch; it is also called to act."""
        minibatch = self._minibatch
        if minibatch is None or "prev_neglogp" not in result:
            return
        masks = minibatch.get("rnn_masks")
        keep = slice(None) if masks is None else masks.reshape(-1) > 0
        new, old, values, returns, entropy = (
            x.detach().reshape(-1)[keep]
            for x in (
                result["prev_neglogp"], minibatch["old_logp_actions"], result["values"], minibatch["returns"],
                result["entropy"],
            )
        )  # fmt: skip
        self.recorder.log.add(log_prob=-new, old_log_prob=-old, values=values, returns=returns, entropy=entropy)

    def _record_rollout(self) -> None:
        algo, self._count = self.algo, 0
        stored = algo.experience_buffer.tensor_dict
        rewards = np.stack([step[0] for step in self._steps])
        limits = [step[1] for step in self._steps]
        self._steps = []
        begins = to_floats(stored["dones"], rewards.shape)  # dones[t]: step t begins an episode
        ended = np.concatenate([begins[1:], to_floats(algo.dones).reshape(1, -1)]) > 0
        values, advantages = (to_floats(x, rewards.shape) for x in (stored["values"], self._advantages))
        rollout = RecordedRollout(
            rewards=rewards,
            values=values,
            advantages=advantages,
            returns=values + advantages,
            ended=ended,
            truncated=None if any(limit is None for limit in limits) else np.stack(limits) > 0,
            observations=_observations(algo, stored["obses"]),
        )
        self.recorder.rollout(rollout, lambda: _subject(algo, rollout))

    def _finish_update(self, result: Any) -> None:
        sigmas = self.algo.experience_buffer.tensor_dict.get("sigmas")
        self.recorder.update(
            {
                "policy_loss": float(np.mean([float(loss.detach()) for loss in result[4]])),
                "learning_rate": self.algo.optimizer.param_groups[0]["lr"],
                "action_std": None if sigmas is None else float(sigmas.mean()),
            }
        )


def _observations(algo: Any, stored: Any) -> Any:
    """Return what the network receives, [T, N, …]: normalized where the model does so, without updating its mean."""
    if isinstance(stored, dict) or not algo.normalize_input:
        return stored
    scaler = algo.model.running_mean_std
    mode = scaler.training
    with torch.no_grad():
        scaler.eval()
        flat = scaler(stored.flatten(0, 1))
        scaler.train(mode)
    return flat.reshape(stored.shape)


def _subject(algo: Any, rollout: RecordedRollout) -> Subject:
    if algo.is_rnn or algo.has_central_value:
        raise NotMeasurable("recurrent policies and central values of rl_games are not supported")
    stored, model = algo.experience_buffer.tensor_dict, getattr(algo.model, "_orig_mod", algo.model)  # compiled
    actions, observations = stored["actions"].flatten(0, 1), stored["obses"]
    if isinstance(observations, dict):
        flat: Any = {name: value.flatten(0, 1) for name, value in observations.items()}
    else:
        flat = observations.flatten(0, 1)

    def evaluate(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = {name: value[index] for name, value in flat.items()} if isinstance(flat, dict) else flat[index]
        result = model({"is_train": True, "prev_actions": actions[index], "obs": algo._preproc_obs(chosen)})
        return -result["prev_neglogp"].flatten(), result["values"].flatten()

    steps, envs = rollout.rewards.shape
    targets = to_floats(algo.dataset.values_dict["returns"]).reshape(envs, steps).T  # one environment after the other
    return Subject(
        module=model,
        evaluate=evaluate,
        log_probs=-to_floats(stored["neglogpacs"], rollout.rewards.shape),
        gamma_lambda=algo.gamma * algo.tau,
        centered=bool(algo.normalize_advantage),
        value_targets=targets,
        value_coef=0.5 * algo.critic_coef,
    )
