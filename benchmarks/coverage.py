"""Coverage of the nominal 95 % intervals, compared with bootstrap percentiles.

Run: .venv/bin/python benchmarks/coverage.py [repeats]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "gradients"))
from known_answers import AR1, Chain, SharedBias, delayed, lake

from rollshape.gradients import gram
from rollshape.gradients.intervals import Bootstrap, estimate_squared_norm
from rollshape.gradients.surface import surface

QUANTITIES = ("total", "Term 1", "Term 2", "ESS", "|G|²")


def statistics(envs: int, steps: int) -> list[tuple[Callable, bool]]:
    """Return (statistic, whether it is positive) of all quantities but the last."""
    return [
        (lambda q: (q["row"] - q["norm"]) / envs, True),
        (lambda q: (q["step"] - q["norm"]) / (envs * steps), True),
        (lambda q: ((q["row"] - q["norm"]) * steps - q["step"] + q["norm"]) / (envs * steps), False),
        (lambda q: envs * (q["step"] - q["norm"]) / (q["row"] - q["norm"]), True),
    ]


def draw_sample(stream: AR1 | Chain, rng: np.random.Generator, envs: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean squared norm of a step [N] and rows [N, P]."""
    if isinstance(stream, AR1):
        g = stream.draw(rng, envs, steps)
        return (g**2).sum(-1).mean(1), g.mean(1)
    walk = stream.draw(rng, envs, steps)
    traces = gram.scale_traces(walk.score_traces(), jnp.asarray(walk.true_advantages(), jnp.float32))
    squares = (walk.true_advantages() ** 2) * (np.asarray(walk.score_traces()[0].errors) ** 2).sum(-1)
    return squares.mean(1), np.asarray(gram.rows(traces), np.float64)


def truths(stream: AR1 | Chain, envs: int, steps: int) -> list[float]:
    if isinstance(stream, AR1):
        sigma, tau, mean = stream.step_variance, stream.correlation_time(steps), stream.mean
    else:
        lags, mean = stream.lag_covariance(steps), stream.gradient
        sigma = lags[0]
        tau = 1 + 2 * ((1 - np.arange(1, steps) / steps) * lags[1:]).sum() / sigma
    size = envs * steps
    return [sigma * tau / size, sigma / size, sigma * (tau - 1) / size, size / tau, float(mean @ mean)]


def coverage(stream: AR1 | Chain, envs: int, steps: int, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of repeats whose interval contains the truth: ours, and percentiles."""
    rng, truth = np.random.default_rng(0), truths(stream, envs, steps)
    ours, percentiles = np.zeros((2, len(QUANTITIES)))
    for _ in range(repeats):
        squares, rows = draw_sample(stream, rng, envs, steps)
        products = rows @ rows.T
        bootstrap = Bootstrap({"step": squares, "row": np.diag(products)}, {"norm": products}, rng)
        functions = statistics(envs, steps)
        estimates = [*(bootstrap.estimate(f, positive=p) for f, p in functions), estimate_squared_norm(products)]
        ours += [t in e for e, t in zip(estimates, truth, strict=True)]
        for i, f in enumerate([*(f for f, _ in functions), lambda q: q["norm"]]):
            low, high = np.quantile(f(bootstrap._resamples), [0.025, 0.975])
            percentiles[i] += low <= truth[i] <= high
    return ours / repeats, percentiles / repeats


def paired_coverage(envs: int, updates: float, repeats: int) -> tuple[float, float]:
    """Return the coverage of paired differences between two shapes, and their width relative to unpaired ones."""
    source, rng, hits, widths = SharedBias(), np.random.default_rng(0), 0, []
    truth = source.error(32, 2, updates) - source.error(8, 8, updates)
    for _ in range(repeats):
        other, own = surface(64, source.draw(rng, envs, (2, 8)), rng, updates, run_steps=8)
        difference = other.score_difference
        hits += truth in difference
        unpaired = np.hypot(*(point.score.high - point.score.low for point in (other, own)))
        widths.append((difference.high - difference.low) / unpaired)
    return hits / repeats, float(np.mean(widths))


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(f"{'stream, N×T':<34}" + "".join(f"{name:>10}" for name in QUANTITIES))
    for name, stream, envs, steps in (
        ("AR(1)", AR1(), 32, 8),
        ("AR(1), skewed", AR1(skewed=True), 32, 8),
        ("AR(1), 50 parameters", AR1(size=50, signal=0.3), 32, 8),
        ("delay chain", delayed(), 32, 8),
        ("delay chain", delayed(), 32, 32),
        ("FrozenLake, random policy", lake(), 32, 32),
        ("FrozenLake, random policy", lake(), 128, 32),
    ):
        for method, shares in zip(("", " percentiles"), coverage(stream, envs, steps, repeats), strict=True):
            label = method or f"{name} {envs}×{steps}"
            print(f"{label:<34}" + "".join(f"{share:>10.3f}" for share in shares), flush=True)
    print("paired difference of 32×2 to 8×8, AR(1) windows with a bias in common: coverage, width / unpaired width")
    for envs, updates in ((32, 1.0), (32, 8.0), (256, 1.0)):
        share, width = paired_coverage(envs, updates, repeats)
        print(f"{envs} environments, h = {updates:g}: {share:.3f}, {width:.2f}", flush=True)
