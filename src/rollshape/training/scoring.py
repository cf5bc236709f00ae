"""Scoring during and after training. In host environments a score stops early: their steps may cost more than training.

The unit is a group of environments, each of which plays one episode to its end. Cutting episodes off at a number of
steps would keep the short ones and lose the long ones; a group keeps all of them, and only the number of groups is
chosen. `stop_reason` chooses it by the returns and the step count, never by the time: a score repeats bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rollshape.envs.host import HostStep, Values
from rollshape.training.driver import Driver, RunState
from rollshape.training.evaluate import OnScore, Score, ScoreProgress, StopReason, score_of

EVAL_EPISODES = 64  # of scores during training, at most
MIN_STEPS = 10_000  # budget of a score after a short training
MIN_EPISODES = 32  # before an interval counts as narrow
NARROW = 0.02  # half-width of the 95 % interval, as a share of the mean

PlayGroup = Callable[[int], Iterator[HostStep]]  # index of the group → its steps, for as long as an episode may last


def passes(every: int | None, before: int, now: int) -> bool:
    """Return whether a score is due: a multiple of `every` timesteps lies between the two."""
    return every is not None and now // every > before // every


def reaches(value: float | None, threshold: float | None) -> bool:
    """Return whether a return that may not exist reaches a threshold that may not be set."""
    return threshold is not None and value is not None and value >= threshold


def score_state(driver: Driver, state: RunState, episodes: int, on_score: OnScore | None = None) -> Score:
    """Score a state of a run; in host environments with at most about as many steps as the training has made."""
    timesteps = int(state.update) * driver.plan.rollout_size
    return driver.score(state, driver.spec.seed, episodes, max(MIN_STEPS, timesteps), on_score)


def score_final(driver: Driver, state: RunState, on_score: OnScore | None = None) -> Score | None:
    """Return the final score of a run, None if it is to have none."""
    episodes = driver.spec.final_episodes
    return score_state(driver, state, episodes, on_score) if episodes else None


def summarize_score(score: Score | None) -> dict[str, Any]:
    """Return the fields of a run's summary that describe a final score, or that there is none."""
    return {
        "final_return": score.mean if score else None,
        "final_return_ci": score.half_width if score else None,
        "final_episodes": score.episodes if score else 0,
        "final_stopped_by": score.stopped_by if score else None,
    }


def stop_reason(returns: Values, episodes: int, steps: int, max_steps: int | None) -> StopReason | None:
    """Return why a score ends after these returns; None if another group is to be played.

    "episodes": all were played. "interval": half-width of the 95 % interval ≤ 2 % of |mean|, which is below what
    distinguishes two policies in practice. "steps": the budget is used up. Without `max_steps` only the first ends it.

    This is optional stopping. An interval is narrow sooner if the returns happen to be close to each other, so it
    covers the true mean slightly less often than in 95 % of all cases. Identical returns never stop a score: their
    interval has no width, but the rare return that differs (a fall, a sparse reward) may not have been observed yet.
    A group of long episodes uses up the budget sooner, so these weigh slightly more. docs/maths.md has the size of
    both effects.
    """
    if returns.size >= episodes:
        return "episodes"
    if max_steps is None:
        return None
    if returns.size >= MIN_EPISODES and _is_narrow(returns):
        return "interval"
    return "steps" if steps >= max_steps else None


def _is_narrow(returns: Values) -> bool:
    mean, half_width, *_ = score_of(returns, returns)
    return 0.0 < half_width <= NARROW * abs(mean)


def score_groups(
    play: PlayGroup,
    num_envs: int,
    episodes: int,
    max_steps: int | None = None,
    on_score: OnScore | None = None,
) -> Score:
    """Play groups of `num_envs` full episodes until `stop_reason` says so.

    All steps of the pool count, also those of environments that wait for the longest episode of their group.
    """
    returns, lengths = np.zeros(0), np.zeros(0, np.int64)
    steps, score = 0, None
    report = on_score or (lambda _: None)
    report(ScoreProgress(0, episodes, None))
    for group in itertools.count():
        wanted = min(num_envs, episodes - returns.size)
        done, totals, counts = np.arange(num_envs) >= wanted, np.zeros(num_envs), np.zeros(num_envs, np.int64)
        for outcome in play(group):
            steps += num_envs
            totals += np.where(done, 0.0, outcome.reward)
            counts += ~done
            ended = ~done & (outcome.terminated | outcome.truncated)
            done |= ended
            if done.all():
                break
            if ended.any():
                report(ScoreProgress(returns.size + wanted - int((~done).sum()), episodes, score))
        returns, lengths = np.append(returns, totals[:wanted]), np.append(lengths, counts[:wanted])
        score, reason = score_of(returns, lengths), stop_reason(returns, episodes, steps, max_steps)
        report(ScoreProgress(returns.size, episodes, score))
        if reason is not None:
            return score._replace(stopped_by=reason)
    raise AssertionError("unreachable")
