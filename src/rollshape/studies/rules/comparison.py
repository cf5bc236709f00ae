"""Pairwise comparison of groups of runs, on which every rule rests.

Two groups are separated when one center is above the other with a probability over 1 − 0.05/p
(`statistics.separate`), where p is the number of pairs compared. Each direction therefore has a family-wise error of
5 %, both together 10 %: among groups that do not differ at all, at most about one study in ten separates a pair. In
simulations with normal scores it is 0.5 to 3 % with 3 to 5 seeds per group (t-distribution) and 6 to 10 % with 10 to 20
seeds (bootstrap).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rollshape.studies.rules.base import Answer, Effect
from rollshape.studies.statistics import Floats, center, difference_of_centers, separate


@dataclass(frozen=True)
class Pair:
    """Two groups; `sign` is 1 if the second is separated and higher, −1 if it is separated and lower, else 0."""

    first: str
    second: str
    sign: int


def compare_pairs(scores: Mapping[str, Floats], labels: Sequence[str]) -> list[Pair]:
    """Compare all pairs of groups, in the order of the labels."""
    labels = [label for label in labels if label in scores]
    signs = separate({label: scores[label] for label in labels})
    return [Pair(first, second, signs[first, second]) for first, second in combinations(labels, 2)]


def has_separated_pair(scores: Mapping[str, Floats]) -> bool:
    return any(pair.sign for pair in compare_pairs(scores, list(scores)))


def check_trend(scores: Mapping[str, Floats], labels: Sequence[str], direction: int = 1) -> tuple[Answer, str]:
    """Test whether scores rise (direction 1) or fall (−1) along the labels; return the answer and its reason."""
    separated = [pair for pair in compare_pairs(scores, labels) if pair.sign]
    if not separated:
        return "not settled", "no pair of groups differs significantly"
    supporting = [pair for pair in separated if pair.sign == direction]
    opposing = [pair for pair in separated if pair.sign == -direction]
    reason = f"{len(supporting)} of {len(separated)} significantly different pairs support the claim"
    if opposing:
        worst = max(opposing, key=lambda pair: abs(difference(scores, pair)))
        reason += f"; the largest contradiction: {worst.first} to {worst.second}, {difference(scores, worst):+.4g}"
    return ("depends" if supporting and opposing else "confirmed" if supporting else "refuted"), reason


def difference(scores: Mapping[str, Floats], pair: Pair) -> float:
    """Return the center of the second group minus that of the first."""
    return float(center(scores[pair.second]) - center(scores[pair.first]))


def measure_effect(
    scores: Mapping[str, Floats], first: str, second: str, measure: str, contrast: str = ""
) -> tuple[Effect, ...]:
    """Return the center of `second` minus that of `first`; nothing if one of them has no score."""
    if first == second or first not in scores or second not in scores:
        return ()
    size = difference_of_centers(scores[first], scores[second])
    return (Effect(contrast or f"{second} minus {first}", measure, size),)


def combine_answers(answers: Sequence[Answer]) -> Answer:
    """Return the one answer that is given, `depends` where answers contradict; `not settled` does not count."""
    settled = {answer for answer in answers if answer != "not settled"}
    return settled.pop() if len(settled) == 1 else "depends" if settled else "not settled"


def judge_recommended(scores: Mapping[str, Floats], recommended: Sequence[str]) -> Answer:
    """Judge that all recommended groups are the best or tied with it: `refuted` if none is, `depends` if some are."""
    if not has_separated_pair(scores):
        return "not settled"
    _, ties = best_and_ties(scores)
    good = [label for label in recommended if label in ties]
    return "confirmed" if len(good) == len(recommended) else "depends" if good else "refuted"


def best_label(scores: Mapping[str, Floats], labels: Sequence[str]) -> str | None:
    """Return the label with the highest center; None if none of them has a score."""
    return max((label for label in labels if label in scores), key=lambda label: center(scores[label]), default=None)


def best_and_ties(scores: Mapping[str, Floats]) -> tuple[str, list[str]]:
    """Return the label with the highest center, and all labels not separated from it, itself included."""
    best = max(scores, key=lambda label: float(center(scores[label])))
    worse = {
        pair.first if pair.sign > 0 else pair.second
        for pair in compare_pairs(scores, list(scores))
        if pair.sign and best in (pair.first, pair.second)
    }
    return best, [label for label in scores if label not in worse]
