"""The scores of a run, and how well they are known: standard errors over episodes, the untrained policy's score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollshape.studies.metrics import MetricsRow
from rollshape.studies.statistics import Floats

FULL_LENGTH = 0.95  # share of the longest episodes from which on an episode is complete
FIXED_SHARE = 0.8  # of the rows, from which on episodes have a fixed length
MAX_SCORES = 400  # a longer log is averaged over equal numbers of rows


@dataclass(frozen=True)
class Scores:
    """Scores along a run, at most 400.

    `error` is the typical standard error of a score over its episodes, `first_error` that of the first one; None if the
    log does not give it. `untrained` is the score of a row of update 0.
    """

    values: Floats
    error: float | None
    first_error: float | None
    untrained: float | None


def read_learning_scores(rows: Sequence[MetricsRow], min_scores: int) -> Scores:
    """Return returns on fresh episodes if there are enough, else training returns."""
    name = "eval_return"
    if sum(row.metric(name) is not None for row in rows) < min_scores:
        name = "episodic_return"
    scored = [(row, value) for row in rows if (value := row.metric(name)) is not None]
    if name == "episodic_return":
        scored = _without_partial_episodes(scored)
    errors = [_standard_error(row, name) for row, _ in scored]
    known = [error for error in errors if error is not None]
    values = np.array([value for _, value in scored], np.float64)
    size = -(-values.size // MAX_SCORES)  # rows per score
    if size > 1:
        values = np.array([part.mean() for part in np.array_split(values, -(-values.size // size))])
    shrink = 1 / math.sqrt(max(1, size))
    return Scores(
        values=values,
        error=float(np.median(known)) * shrink if known and 2 * len(known) >= len(errors) else None,
        first_error=errors[0] * shrink if errors and errors[0] is not None else None,
        untrained=next((value for row, value in scored if row.update == 0), None),
    )


def _without_partial_episodes(scored: list[tuple[MetricsRow, float]]) -> list[tuple[MetricsRow, float]]:
    """Leave out rows whose episodes began before the log, as if environments start at random steps of an episode.

    They are shorter than others although the time limit ended them. Where the log does not say what ended an episode,
    episodes that nearly always have the same length are taken to be ended by a time limit.
    """
    lengths = [row.metric("episodic_length") or 0.0 for row, _ in scored]
    complete = FULL_LENGTH * max(lengths, default=0.0)
    is_fixed = sum(length >= complete for length in lengths) >= FIXED_SHARE * len(lengths)
    kept = []
    for (row, score), length in zip(scored, lengths, strict=True):
        timeouts = row.metric("timeout_share")
        is_cut = is_fixed if timeouts is None else timeouts > 0.99
        if not is_cut or length >= complete:
            kept.append((row, score))
    return kept


def _standard_error(row: MetricsRow, name: str) -> float | None:
    if name == "eval_return":
        half_width = row.metric("eval_return_ci")
        return None if half_width is None else half_width / 1.96
    deviation, episodes = row.metric("episodic_return_std"), row.metric("episodes")
    return deviation / math.sqrt(episodes) if deviation is not None and episodes else None
