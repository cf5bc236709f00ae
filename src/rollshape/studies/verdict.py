"""What became of a run: learned, still rising, plateaued, never learned, collapsed or diverged, by a stated test.

Scores y₀ … yₙ₋₁ are those of fresh episodes where they were taken, else the training return. Their noise is
σ² = Σ (yᵢ₊₁ − yᵢ)² / 2(n−1), which a trend only makes larger. With w = n/5 (at least 2), the end is the mean of the
last w scores, the best the highest mean of w scores in a row. A difference counts from three standard errors on, that
of the best from four, for it is the largest of many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rollshape.studies.statistics import Floats

Verdict = Literal[
    "learned", "still rising", "plateaued", "never learned", "collapsed", "diverged", "too short to judge"
]
FEWEST = 5
CLEAR, BEST_CLEAR = 3.0, 4.0
TREND = 2.326  # one-sided 1 % of the normal distribution
MATERIAL = 0.1  # share of the whole rise that the second half must have brought, to be still rising
CLOSE = 0.9  # share of the rise to the best of comparable runs that counts as learned
HALFWAY = 0.5  # of the way to the target: a best that did not get there is no measure


@dataclass(frozen=True)
class Judgement:
    verdict: Verdict
    reason: str
    numbers: dict[str, float | None]

    @property
    def bad(self) -> bool:
        return self.verdict != "learned"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def scores(rows: Sequence[Mapping[str, Any]]) -> Floats:
    """The scores of a run, those of fresh episodes if there are enough."""
    for name in ("eval_return", "episodic_return"):
        found = [row[name] for row in rows if row.get(name) is not None]
        if len(found) >= FEWEST or name == "episodic_return":
            break
    return np.array(found, np.float64)


def end_score(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Mean of the last fifth of the scores."""
    y = scores(rows)
    return float(y[-_width(y) :].mean()) if y.size else None


def _width(y: Floats) -> int:
    return min(y.size, max(2, y.size // 5))


def judge(
    rows: Sequence[Mapping[str, Any]], status: str, target: float | None = None, best_other: float | None = None
) -> Judgement:
    """A run's verdict. `target`: a score that counts as solved; `best_other`: the best end of comparable runs."""
    if status == "diverged":
        return Judgement("diverged", "a loss or parameter was not finite", {})
    y = scores(rows)
    if y.size < FEWEST:
        return Judgement("too short to judge", f"{y.size} scores, {FEWEST} are needed", {})
    w = _width(y)
    means = np.convolve(y, np.ones(w) / w, "valid")
    start, end, best = float(y[0]), float(means[-1]), float(means.max())
    noise = float(np.sqrt((np.diff(y) ** 2).sum() / (2 * (y.size - 1))))
    from_start, between = noise * math.sqrt(1 + 1 / w), noise * math.sqrt(2 / w)
    numbers: dict[str, float | None] = {"start": start, "end": end, "best": best, "noise": noise, "target": target}
    trend, gain = _trend(y[y.size // 2 :])
    numbers |= {"trend_z": trend, "gain": gain}
    told = f"from {start:.4g} to {end:.4g}, noise {noise:.2g}"
    if target is not None and end >= target:
        return Judgement("learned", f"{told}; {target:.4g} counts as solved", numbers)
    if best - end > max(CLEAR * between, (best - start) / 2) and best - start > BEST_CLEAR * from_start:
        return Judgement("collapsed", f"{told}, after {best:.4g}: more than half of the rise was lost again", numbers)
    if end - start <= CLEAR * from_start and best - start <= BEST_CLEAR * from_start:
        return Judgement("never learned", f"{told}: less than {CLEAR:g} standard errors", numbers)
    if trend > TREND and gain > MATERIAL * (end - start):
        return Judgement(
            "still rising",
            f"{told}; the second half rose by {gain:.3g} (Mann–Kendall z = {trend:.1f}, above {TREND:g})",
            numbers,
        )
    least = start if target is None else start + HALFWAY * (target - start)
    if best_other is not None and best_other > least and end >= start + CLOSE * (best_other - start):
        return Judgement("learned", f"{told}, flat at the end, within a tenth of the best, {best_other:.4g}", numbers)
    against = "" if best_other is None else f"; the best run ends at {best_other:.4g}"
    return Judgement("plateaued", f"{told}, flat at the end (Mann–Kendall z = {trend:.1f}){against}", numbers)


def _trend(y: Floats) -> tuple[float, float]:
    """(Mann and Kendall's z, the rise along Theil and Sen's slope) of scores at equal distances."""
    n = y.size
    i, j = np.triu_indices(n, 1)
    statistic = np.sign(y[j] - y[i]).sum()
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    slope = float(np.median((y[j] - y[i]) / (j - i))) if n > 1 else 0.0
    return float((statistic - np.sign(statistic)) / deviation) if deviation else 0.0, slope * (n - 1)
