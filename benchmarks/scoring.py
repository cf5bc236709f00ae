"""Properties of a score that stops early, by simulation: coverage of its 95 % interval, bias, episodes played.

.venv/bin/python benchmarks/scoring.py            # the table of docs/maths.md
"""

from collections.abc import Callable

import numpy as np

from rollshape.geometry.memory import SCORE_ENVS
from rollshape.training.evaluate import score_of
from rollshape.training.scoring import MIN_STEPS, stop_reason
from rollshape.training.spec import FINAL_EPISODES

REPETITIONS = 10_000
NO_LIMIT = 2**53
Draw = Callable[[np.random.Generator, int], np.ndarray]
CASES: dict[str, tuple[Draw, float, int]] = {  # returns, their mean, step budget
    **{
        f"normal, deviation {deviation:.0%} of the mean": (
            lambda rng, count, deviation=deviation: rng.normal(1.0, deviation, count),
            1.0,
            NO_LIMIT,
        )
        for deviation in (0.03, 0.05, 0.08, 0.2)
    },
    **{
        f"500, but 100 with probability {chance:.0%}": (
            lambda rng, count, chance=chance: np.where(rng.random(count) < chance, 100.0, 500.0),
            500.0 - 400.0 * chance,
            NO_LIMIT,
        )
        for chance in (0.01, 0.03)
    },
    **{
        f"return = length, exponential, mean {mean}, {MIN_STEPS:,} steps": (
            lambda rng, count, mean=mean: rng.exponential(mean, count),
            mean,
            MIN_STEPS,
        )
        for mean in (50, 100, 200, 400)
    },
}


def simulate(draw: Draw, mean: float, max_steps: int) -> tuple[float, float, float, float]:
    """Return (coverage, coverage with all episodes, bias as a share of the mean, episodes played)."""
    rng, results = np.random.default_rng(0), []
    for _ in range(REPETITIONS):
        returns, steps, reason = draw(rng, FINAL_EPISODES), 0.0, None
        for count in range(SCORE_ENVS, FINAL_EPISODES + 1, SCORE_ENVS):
            steps += SCORE_ENVS * returns[count - SCORE_ENVS : count].max() if max_steps < NO_LIMIT else 0
            reason = reason or stop_reason(returns[:count], FINAL_EPISODES, int(steps), max_steps)
            if reason:
                break
        early, full = (score_of(part, part) for part in (returns[:count], returns))
        covered = [abs(score.mean - mean) <= score.half_width for score in (early, full)]
        results.append((*covered, early.mean / mean - 1, early.episodes))
    return tuple(np.mean(results, axis=0))


if __name__ == "__main__":
    print("| returns | coverage | with all 128 | bias | episodes |\n|---|---:|---:|---:|---:|")
    for name, case in CASES.items():
        coverage, fixed, bias, episodes = simulate(*case)
        print(f"| {name} | {coverage:.1%} | {fixed:.1%} | {round(bias, 3) + 0.0:+.1%} | {episodes:.0f} |")
