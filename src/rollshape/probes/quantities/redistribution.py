"""True and redistributed reward along an episode: how RRD distributes a return that is only known at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rollshape.agents.return_decomposition import predict_rewards
from rollshape.agents.soft import soft_distribution_for
from rollshape.algorithms.replay import latest_episodes, slot
from rollshape.probes.plotting import GRAY, ORANGE, probe_figure
from rollshape.probes.quantities.quantity import Quantity
from rollshape.probes.subject import Checkpoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rollshape.probes.rewards import RewardContext, RewardProbe


@dataclass(frozen=True, eq=False)
class Redistribution:
    """Rewards along one episode, [T] each; `correlation` is None where one of them is constant."""

    true: NDArray[np.float32]
    predicted: NDArray[np.float32]
    correlation: float | None


def measure(context: RewardContext) -> Redistribution:
    return measure_redistribution(context.checkpoint)


def measure_redistribution(checkpoint: Checkpoint) -> Redistribution:
    """Compare hidden and predicted rewards along the latest episode in the replay of a checkpoint."""
    network, replay = checkpoint.reward_model()
    latest, is_whole = latest_episodes(replay)
    env, start, length = (int(part[jnp.argmax(is_whole)]) for part in latest)
    positions = jnp.arange(start, start + length)
    here, there = slot(replay, jnp.asarray(env), positions), slot(replay, jnp.asarray(env), positions + 1)
    policy = soft_distribution_for(checkpoint.env.action)
    rewards = jax.jit(lambda *rows: predict_rewards(network, policy, *rows))(
        replay.observation[here], replay.action[here], replay.observation[there]
    )
    true, predicted = np.asarray(replay.reward[here]), np.asarray(rewards)
    varies = min(true.std(), predicted.std()) > 0
    return Redistribution(true, predicted, float(np.corrcoef(true, predicted)[0, 1]) if varies else None)


def to_dict(probe: RewardProbe) -> dict[str, Any]:
    result = probe.redistribution
    return {
        "redistribution": {
            "true": result.true.tolist(),
            "predicted": result.predicted.tolist(),
            "correlation": result.correlation,
        }
    }


def from_dict(document: Mapping[str, Any]) -> Redistribution:
    entry = document["redistribution"]
    true, predicted = (np.array([np.nan if x is None else x for x in entry[name]], np.float32) for name in
                       ("true", "predicted"))  # fmt: skip
    return Redistribution(true, predicted, entry["correlation"])


def sentences(probe: RewardProbe) -> list[str]:
    result = probe.redistribution
    if result.correlation is None:
        return ["The true or the redistributed rewards of the latest episode are constant: they have no correlation."]
    return [
        f"Correlation between redistributed and true rewards along the latest episode ({len(result.true):,} steps): "
        f"{result.correlation:.2f} (a single episode, no interval)."
    ]


def figures(probe: RewardProbe) -> dict[str, Figure]:
    result = probe.redistribution
    correlation = "" if result.correlation is None else f", correlation {result.correlation:.2f}"
    title = f"True and redistributed reward of the latest episode{correlation}"
    figure = probe_figure(probe, title, "a single episode, no interval", (7.0, 3.5))
    axes = figure.subplots()
    axes.plot(result.true, label=f"true, sum {result.true.sum():.4g}", color=GRAY)
    axes.plot(result.predicted, label=f"redistributed, sum {result.predicted.sum():.4g}", color=ORANGE)
    axes.set(xlabel="step of the episode", ylabel="reward")
    axes.legend(frameon=False)
    return {"redistribution": figure}


REDISTRIBUTION = Quantity["RewardContext", "RewardProbe"](
    name="redistribution", measure=measure, to_dict=to_dict, from_dict=from_dict, sentences=sentences, figures=figures
)
