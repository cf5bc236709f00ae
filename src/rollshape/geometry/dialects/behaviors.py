"""What libraries do that no size of a config says: shuffling, normalization, time limits, schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Shuffle(StrEnum):
    """How the samples of a rollout are assigned to minibatches."""

    EACH_EPOCH = "single transitions, reshuffled each epoch"
    AFTER_FIRST = "single transitions, reshuffled each epoch except the first"
    ONCE = "single transitions, shuffled once for all epochs"
    NONE = "no shuffling: contiguous blocks in a fixed order"
    BLOCKS = "contiguous blocks in shuffled order"
    ROTATED = "contiguous blocks, starting at a random sample each epoch"
    TRAJECTORIES = "whole trajectories, reshuffled each epoch"
    REPLAY = "sampled from a replay buffer"
    PRIORITY = "segments sampled by advantage, no full pass over the data"
    COMPLETIONS_EACH_EPOCH = "single completions, reshuffled each epoch"
    COMPLETIONS_ONCE = "single completions, shuffled once for all epochs"
    COMPLETIONS_IN_ORDER = "no shuffling: completions in the order of their prompts"


class Normalization(StrEnum):
    """Over which samples advantages are normalized."""

    MINIBATCH = "per minibatch"
    ROLLOUT = "over the rollout"
    OFF = "off by default"
    GROUP = "over the completions of a prompt"


class TimeLimit(StrEnum):
    """How a truncated episode is treated."""

    FINAL = "bootstraps from V of the final observation"
    CURRENT = "bootstraps from V(s_t), an approximation, if the environment reports it"
    TERMINAL = "treated as termination, no bootstrapping"
    MASKED = "the step is masked out"
    IGNORED = "ignored: the return continues into the next episode"
    COMPLETION = "a completion of maximum length is scored as it is"


@dataclass(frozen=True, slots=True)
class Switch:
    """A key that turns a behavior on or off: the behavior's name in `Dialect.behavior`, and its text by value."""

    key: str
    behavior: str
    texts: Mapping[bool, str]


CONSTANT_RATE: Final = "constant unless configured"
LINEAR_RATE: Final = "linear to zero"
CLIPPED, UNCLIPPED = "clipped", "not clipped unless configured"
