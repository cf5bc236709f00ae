"""Records from what `rollshape rescale` knows: rescale_evidence.json, written by benchmarks/rescale.py."""

from __future__ import annotations

import json
from typing import Any

from evidence.records import VERDICTS, answer_of, make_effect
from rollshape.geometry.dialects.rescale_evidence import EVIDENCE_FILE
from rollshape.geometry.rules.evidence import ClaimResult
from rollshape.studies.regret import ENVS_ONLY_FORMS
from rollshape.studies.rules.base import Answer, Effect
from rollshape.studies.rules.comparison import combine_answers
from rollshape.studies.statistics import Summary

DATE = "2026-11-18"  # of the commit that added the file
MEASURE = "area under the curve relative to the recipe"
ROOT, UNCHANGED = "sqrt-lr", "keep-num-minibatches"  # both scale the minibatch with num_envs


def records_of_rescale() -> list[ClaimResult]:
    document = json.loads(EVIDENCE_FILE.read_text(encoding="utf-8"))
    scope = f"{', '.join(document['tasks'])} (mean over the tasks, {document['seeds']} seeds)"
    judged = {"envs-only": _envs_only(document), "sqrt-learning-rate": _sqrt_learning_rate(document)}
    return [
        ClaimResult(
            claim, ", ".join(document["tasks"]), VERDICTS[answer], tuple(map(make_effect, effects)), document["seeds"],
            scope, document["command"], DATE, f"geometry/dialects/{EVIDENCE_FILE.name}",
        )
        for claim, (answer, effects) in judged.items()
    ]  # fmt: skip


def _envs_only(document: dict[str, Any]) -> tuple[Answer, list[Effect]]:
    """Judge as the rule changing-envs-only-is-enough does, by the policies that are tied with the best."""
    tied = [form in row["tied"] for row in document["factors"] for form in ENVS_ONLY_FORMS]
    answer: Answer = "confirmed" if all(tied) else "depends" if any(tied) else "refuted"
    effects = [
        Effect(
            f"num_envs × {row['factor']:g}: best policy minus {form}",
            MEASURE,
            _summary(row["policies"][form]["regret"], document["seeds"], "regret"),
        )
        for row in document["factors"]
        for form in ENVS_ONLY_FORMS
    ]
    return answer, effects


def _sqrt_learning_rate(document: dict[str, Any]) -> tuple[Answer, list[Effect]]:
    """Judge √ against an unchanged learning rate by the interval of their difference at every factor."""
    effects = [
        Effect(
            f"minibatch_size × {row['factor']:g}: √ minus unchanged learning rate",
            MEASURE,
            _summary(row["policies"][ROOT]["versus_envs_only"][UNCHANGED], document["seeds"], "difference"),
        )
        for row in document["factors"]
    ]
    return combine_answers([answer_of(effect.size) for effect in effects]), effects


def _summary(triple: list[float], seeds: int, method: Any) -> Summary:
    value, low, high = triple
    return Summary(value, low, high, seeds, method)
