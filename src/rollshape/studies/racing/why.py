"""Why a race ended as it did: its runs in sentences, and what the planner says about the shapes."""

from __future__ import annotations

from collections.abc import Sequence

from rollshape.geometry.rules.budget import FEW_UPDATES
from rollshape.geometry.rules.window import NOTABLE_EDGE_WEIGHT, edge_weight
from rollshape.studies.racing.advice import Advice, Ranked
from rollshape.studies.racing.race import Candidate, Race
from rollshape.studies.racing.settings import RaceSettings

OBJECTIVE_NAMES = {
    "return": "return on fresh episodes",
    "seconds": "return after equal seconds on this machine",
    "auc": "area under the learning curve",
}
MOST_LABELS = 6


def explain(advice: Advice, race: Race) -> list[str]:
    """Return sentences: the comparison that decided, what was trained, and likely causes."""
    return [
        _describe_best(advice, race.settings),
        _describe_runs(advice),
        *_describe_failed(advice),
        *_describe_causes(advice),
        *_describe_best_plan(advice.best.candidate),
    ]


def list_labels(ranked: Sequence[Ranked]) -> str:
    """Return `16×32, 64×32 and 3 others`."""
    labels = [item.candidate.label for item in ranked]
    if len(labels) <= MOST_LABELS:
        return join_labels(labels)
    return f"{join_labels(labels[: MOST_LABELS - 1])} and {len(labels) - MOST_LABELS + 1} others"


def join_labels(labels: Sequence[str]) -> str:
    """Return labels in one line; those of candidates with further settings have commas of their own."""
    return ("; " if any("," in label for label in labels) else ", ").join(labels)


def describe_groups(advice: Advice) -> list[str]:
    """Return what is as good as the best shape, what the race says little about, and what to avoid."""
    tied = advice.with_status("tied")
    groups = {
        "Tied": [item for item in tied if item.num_seeds],
        "Not trained and not ruled out": [item for item in tied if not item.num_seeds],
        "Avoid": advice.with_status("dropped"),
    }
    return [f"{title}: {list_labels(group)}." for title, group in groups.items() if group]


def format_score(ranked: Ranked) -> str:
    """Return `412 [380, 440]`, without an interval if there was one run in all."""
    if ranked.score is None:
        return "no score"
    if ranked.low is None or ranked.high is None:
        return f"{ranked.score:.4g}"
    return f"{ranked.score:.4g} [{ranked.low:.4g}, {ranked.high:.4g}]"


def _describe_best(advice: Advice, settings: RaceSettings) -> str:
    best = advice.best
    trained = [item for item in advice.ranking if item is not best and item.num_seeds and item.score is not None]
    second = max(trained, key=lambda item: float(item.score or 0.0), default=None)
    against = f"; the next is {second.candidate.label} with {format_score(second)}" if second else ""
    uncertainty = "" if best.low is None else " Brackets are 95 % intervals."
    return (
        f"Of the trained shapes, {best.candidate.label} has the highest estimated "
        f"{OBJECTIVE_NAMES[settings.objective]}: {format_score(best)}"
        f"{against}.{uncertainty}"
    )


def _describe_runs(advice: Advice) -> str:
    """Say what the estimates rest on: which shapes were trained, and how often."""
    trained = sorted((item for item in advice.ranking if item.num_seeds), key=lambda item: -item.num_seeds)
    labels = [item.candidate.label + (f" ({item.num_seeds} seeds)" if item.num_seeds > 1 else "") for item in trained]
    runs = "run" if advice.num_runs == 1 else "runs"
    length = (
        f"whole {runs}"
        if advice.run_share == 1
        else f"{runs}, each stopped at {advice.run_share:.0%} of total_timesteps because the budget of the race does "
        "not pay for whole ones,"
    )
    return (
        f"The estimates combine {advice.num_runs} {length} with what similar shapes and the number of updates suggest. "
        f"Trained: {join_labels(labels)}."
    )


def _describe_failed(advice: Advice) -> list[str]:
    failed = [item for item in advice.with_status("dropped") if item.score is None]
    return [f"{item.candidate.label} {item.reason.rstrip('.')}." for item in failed]


def _describe_causes(advice: Advice) -> list[str]:
    """Name what the planner says about most of the dropped shapes and not about the best."""
    dropped = [item.candidate for item in advice.with_status("dropped") if item.score is not None]
    best, lines = advice.best.candidate, []
    few = [candidate for candidate in dropped if (candidate.plan.num_updates or 0) < FEW_UPDATES]
    if len(few) > 1 and (best.plan.num_updates or 0) >= FEW_UPDATES:
        counts = sorted({candidate.plan.num_updates or 0 for candidate in few})
        lines.append(
            f"With this budget {best.label} makes {best.plan.num_updates:,} updates, {len(few)} of {len(dropped)} "
            f"dropped shapes fewer than {FEW_UPDATES} ({_span(counts)})."
        )
    weights = {candidate.label: _edge_weight(candidate) for candidate in dropped}
    short = [label for label, weight in weights.items() if weight > NOTABLE_EDGE_WEIGHT]
    if len(short) > 1 and _edge_weight(best) <= NOTABLE_EDGE_WEIGHT:
        lines.append(
            f"{len(short)} of {len(dropped)} dropped shapes have short windows, in which the critic's value at the "
            f"edge has a mean weight above {NOTABLE_EDGE_WEIGHT:g} ({best.label}: {_edge_weight(best):.2f})."
        )
    return lines


def _span(counts: Sequence[int]) -> str:
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def _edge_weight(candidate: Candidate) -> float:
    return edge_weight(candidate.plan.gae_window, candidate.spec.gamma, candidate.spec.gae_lambda)


def _describe_best_plan(candidate: Candidate) -> list[str]:
    """Return warnings of the planner about the best shape: it won in spite of them."""
    warnings = [finding for finding in candidate.plan.findings if finding.severity == "warn"]
    return [f"Planner on {candidate.label}: {finding.message}" for finding in warnings]
