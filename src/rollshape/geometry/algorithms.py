"""Algorithm names and what each requires of a plan. Their code is in `rollshape.algorithms`, one file each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Algo = Literal["ppo", "ppo-ewma", "a2c", "reinforce", "rrd", "sac"]


@dataclass(frozen=True, slots=True)
class AlgorithmRules:
    """What an algorithm requires of a plan."""

    full_batch: bool = False  # one gradient step on the whole rollout, no minibatches
    default_epochs: int = 1
    uses_gae: bool = True  # T is a GAE window: the value at its edge stands for the rest of the episode
    uses_replay: bool = False  # samples transitions from a replay buffer instead of training on the rollout
    uses_subsequences: bool = False  # also samples subsequences of whole episodes
    averages_network: bool = False  # also carries a moving average of the network

    @property
    def uses_minibatches(self) -> bool:
        """Whether each epoch splits the rollout into minibatches."""
        return not self.full_batch and not self.uses_replay

    @property
    def uses_episode_returns(self) -> bool:
        """Whether the rollout should contain whole episodes, because returns are not bootstrapped."""
        return not self.uses_gae and not self.uses_replay


RULES: dict[str, AlgorithmRules] = {
    "ppo": AlgorithmRules(default_epochs=4),
    "ppo-ewma": AlgorithmRules(default_epochs=4, averages_network=True),
    "a2c": AlgorithmRules(full_batch=True),
    "reinforce": AlgorithmRules(full_batch=True, uses_gae=False),
    "sac": AlgorithmRules(uses_gae=False, uses_replay=True),
    "rrd": AlgorithmRules(uses_gae=False, uses_replay=True, uses_subsequences=True),
}
ALGORITHMS: tuple[Algo, ...] = get_args(Algo)
REPLAY_ALGORITHMS: tuple[Algo, ...] = tuple(algo for algo in ALGORITHMS if RULES[algo].uses_replay)
SUBSEQUENCE_ALGORITHMS: tuple[Algo, ...] = tuple(algo for algo in ALGORITHMS if RULES[algo].uses_subsequences)
