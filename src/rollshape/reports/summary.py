"""The conclusion of a report in sentences: verdicts with their scope, and whether a probe predicted the result."""

from __future__ import annotations

from collections import Counter

from rollshape.reports.report_data import ReportData
from rollshape.studies import ranking
from rollshape.studies.rules import ClaimVerdict
from rollshape.studies.rules.monotone import FINAL_RETURN
from rollshape.studies.statistics import MIN_BOOTSTRAP_RUNS

UNEQUAL_ROLLOUTS = (
    "These shapes collect different numbers of samples per update. A probe ranks them by the error of one batch alone, "
    "which ignores how many updates the budget allows."
)


def own_claims(data: ReportData) -> list[ClaimVerdict]:
    """Return the verdicts on the study's own claim, without side claims."""
    return [claim for claim in data.claims if not claim.side_claim]


def write_headline(data: ReportData) -> str:
    """Return the verdict with its scope; several verdicts of one scope are counted."""
    scopes: dict[str, list[ClaimVerdict]] = {}
    for claim in own_claims(data):
        scopes.setdefault(claim.scope, []).append(claim)
    return "; ".join(_headline_of_scope(scope, claims) for scope, claims in scopes.items())


def _headline_of_scope(scope: str, claims: list[ClaimVerdict]) -> str:
    if len(claims) == 1:
        return claims[0].headline
    counts = Counter("mixed" if claim.answer == "depends" else claim.answer for claim in claims)
    return f"{', '.join(f'{count} {answer}' for answer, count in counts.items())} on {scope}"


def summarize_claims(data: ReportData) -> list[str]:
    """Return the conclusion: claim and reasons, how many seeds it rests on, and how well probes predicted it."""
    lines = []
    claims = own_claims(data)
    for claim in claims:
        headline = f" {claim.headline}." if len(claims) > 1 else ""  # a single one stands above
        lines += ([f"Claim: {claim.claim}{headline}"] if claim.claim else []) + [" ".join(claim.reasons)]
    seeds = min((len(group.runs) for task in data.tasks for group in task.groups), default=0)
    if seeds < MIN_BOOTSTRAP_RUNS:
        lines.append(f"Only {seeds} seed{'s' if seeds != 1 else ''} per shape: intervals are "
                     f"{'wide' if seeds > 1 else 'missing'}. Use at least {MIN_BOOTSTRAP_RUNS}.")  # fmt: skip
    for task in data.tasks:
        checks = [check for check in ranking.check_predictions(task) if check.measure == FINAL_RETURN]
        lines += [_describe_check(check) for check in checks]
        lines += [UNEQUAL_ROLLOUTS] if checks and not ranking.has_equal_rollouts(task) else []
    side_claims = [claim for claim in data.claims if claim.side_claim and claim.answer != "not settled"]
    return lines + [f"“{claim.side_claim}”: {claim.headline}. {' '.join(claim.reasons)}" for claim in side_claims]


def _describe_check(check: ranking.PredictionCheck) -> str:
    result = check.ranking
    order = (
        f"it ranks {result.concordant} of {result.separated} significantly different "
        f"pair{'s' if result.separated != 1 else ''} correctly"
        if result.separated
        else "no pair differs significantly, so its order cannot be tested"
    )
    return (
        f"A probe with {check.prediction.horizon} would have chosen {result.predicted_best}: regret {result.regret} in "
        f"final return against {result.measured_best}; {order}."
    )
