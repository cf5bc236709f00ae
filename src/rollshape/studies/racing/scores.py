"""Scores of a trial that is trained in parts: one number per part, from the learning curve so far."""

from __future__ import annotations

import math

import numpy as np

from rollshape.studies.curves import Curve, area_under
from rollshape.studies.racing.settings import Objective

WINDOW = 0.15  # last part of what was trained, over which returns are averaged: one evaluation is noisy


def score_curve(curve: Curve, end: float, objective: Objective) -> float:
    """Return the score of a run that was trained for `end` timesteps; the curve may go on.

    The mean return of all evaluations in the last 15 % of these timesteps, or the area under the curve up to there.
    """
    if objective == "auc":
        return area_under(curve, end)
    x, y = curve
    recent = (x > (1 - WINDOW) * end) & (x <= end + 0.5)
    return float(y[recent].mean()) if recent.any() else float(np.interp(end, x, y))


def num_recent(point: int) -> int:
    """Return how many of `point` equally spaced evaluations a score averages."""
    return point - math.floor((1 - WINDOW) * point + 1e-9)
