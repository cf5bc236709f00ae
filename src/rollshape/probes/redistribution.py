"""True against redistributed reward along an episode: what RRD makes of a return that is told at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rollshape.agents.rrd import predicted_rewards
from rollshape.agents.sac import soft_policy
from rollshape.probes.rrd_gradient import reward_network
from rollshape.training.loop import RunState, Trainer
from rollshape.training.replay import latest_episodes, place

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Redistribution(NamedTuple):
    """Rewards along one episode, [T] each; `correlation` is None where one of them is constant."""

    true: NDArray[np.float32]
    predicted: NDArray[np.float32]
    correlation: float | None


def redistribution(trainer: Trainer, state: RunState) -> Redistribution:
    """The latest episode of a checkpoint's replay: the rewards that were hidden, and the reward network's."""
    network, replay = reward_network(trainer, state)
    latest, whole = latest_episodes(replay)
    env, start, length = (int(part[jnp.argmax(whole)]) for part in latest)
    positions = jnp.arange(start, start + length)
    here, there = place(replay, jnp.asarray(env), positions), place(replay, jnp.asarray(env), positions + 1)
    policy = soft_policy(trainer.env.action)
    predicted = jax.jit(lambda *rows: predicted_rewards(network, policy, *rows))(
        replay.observation[here], replay.action[here], replay.observation[there]
    )
    true, made = np.asarray(replay.reward[here]), np.asarray(predicted)
    varies = min(true.std(), made.std()) > 0
    return Redistribution(true, made, float(np.corrcoef(true, made)[0, 1]) if varies else None)


def draw_redistribution(found: Redistribution, title: str) -> Figure:
    """Both along the episode; no window is opened."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(found.true, label=f"true, sum {found.true.sum():.4g}", color="0.45")
    axes.plot(found.predicted, label=f"redistributed, sum {found.predicted.sum():.4g}", color="tab:orange")
    told = "" if found.correlation is None else f", correlation {found.correlation:.2f}"
    axes.set(xlabel="step of the episode", ylabel="reward", title=title + told)
    axes.legend(frameon=False)
    return figure
