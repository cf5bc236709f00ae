"""The section of a report that compares probes with the learning curves."""

from __future__ import annotations

from rollshape.probes.result import Probe
from rollshape.probes.rewards import RewardProbe
from rollshape.reports import tables
from rollshape.reports.document import Block, Bullets, Figure, Text
from rollshape.reports.figures import gradients, scores
from rollshape.reports.summary import UNEQUAL_ROLLOUTS
from rollshape.studies import ranking
from rollshape.studies.groups import Task
from rollshape.studies.probe_records import FailedProbe


def gradient_blocks(task: Task, number: int, command: str) -> list[Block]:
    """The order of shapes that probes predict against the measured one, and what the probes measured."""
    failures = _failure_blocks(task)
    rewards = {
        group.label: probe
        for group in task.groups
        for run in group.runs
        for probe in run.probes.values()
        if isinstance(probe, RewardProbe)
    }
    if rewards:
        caption = (
            "Left: squared error of the reward network's gradient for every division of the reward batch into "
            "subsequences (intervals of the variance are in the data). Right: the rewards that RRD assigns to the "
            f"steps of one episode, and the true rewards that were hidden from it. {command}"
        )
        return [gradients.reward_batches(f"rewards-{number}", rewards, caption), *failures]
    probes = ranking.measured_probes(task)
    if not probes:
        text = (
            "No run was probed, so there is no prediction to check. Add `probe: {at: [0.1, 0.5, 0.9]}` to the study "
            "file, or run `rollshape probe RUN_DIR`."
        )
        return [Text(text), *failures]
    return [
        *_prediction_blocks(task, number, command),
        *_measurement_blocks(task, number, command),
        *_probe_figures(probes, number),
        *failures,
    ]


def _failure_blocks(task: Task) -> list[Block]:
    errors = {
        probe.error
        for group in task.groups
        for run in group.runs
        for probe in run.probes.values()
        if isinstance(probe, FailedProbe)
    }
    return [Bullets([f"A probe failed: {error}" for error in sorted(errors)])] if errors else []


def _prediction_blocks(task: Task, number: int, command: str) -> list[Block]:
    """Regret and concordance of the predictions; nothing where shapes cannot be predicted."""
    checks, predictions = ranking.check_predictions(task), ranking.predict_errors(task)
    if not checks:
        return []
    caption = (
        "Regret: how much lower the predicted best scores than the measured best (95 % bootstrap interval). Pairs "
        "ranked correctly: among the significantly different pairs, the same as in the verdict (5 % in each direction, "
        "corrected for the number of pairs)."
    )
    blocks: list[Block] = [tables.rankings(checks, caption)]
    if not ranking.has_equal_rollouts(task):
        blocks.append(Text(UNEQUAL_ROLLOUTS))
    finals = task.final_returns()
    if finals:
        caption = (
            "Final return against predicted error; a good prediction falls from left to right. Horizontal: range over "
            f"probes; vertical: 95 % interval. {command}"
        )
        blocks.append(scores.predicted_errors(f"predicted-{number}", predictions, task, finals, caption))
    caption = "Predicted error bias² + variance/h relative to the median shape: mean (range) over probes."
    return [*blocks, tables.predicted_errors(predictions, caption)]


def _measurement_blocks(task: Task, number: int, command: str) -> list[Block]:
    """What the probes measured at the batch of each shape."""
    table = tables.gradients(
        task,
        "The gradient of a batch of each shape, at checkpoints of its own run, with 95 % intervals over environments; "
        "advantages are not normalized; bias is relative to λ = 1 without truncation.",
    )
    shape_map = gradients.shape_map(
        f"shapes-{number}",
        task,
        task.final_returns(),
        "Measured at each shape: final return and, by the shape's own probes (means over them), the gradient of its "
        f"batch. Colors rank the shapes, yellow is best; intervals are in the tables. {command}",
    )
    terms = gradients.variance_terms(
        f"terms-{number}",
        task,
        "Gradient variance of each shape's batch in the middle of its own run: the part of single steps (Term 1) and "
        "of their correlation along time (Term 2, negative where steps cancel), predicted from one long rollout; their "
        "sum next to the variance of batches that were collected at this shape. Both terms depend on T, because T "
        f"changes the advantages. {command}",
    )
    return [block for block in (table, shape_map, terms) if block is not None]


def _probe_figures(probes: list[Probe], number: int) -> list[Figure]:
    """Cosines of single steps of the first probe that has them, and the error surface of the middle probe."""
    figures = []
    for probe in probes:
        maps = [cosine_map for cosine_map in probe.cosine_maps or () if cosine_map.cosine is not None]
        if not maps:
            continue
        caption = (
            "Cosines of the gradients of single steps: batch 0 against itself and against independent batches, for two "
            "shapes of one size; lines separate environments. Blocks on the diagonal show correlation along time. "
            f"These are exact cosines of one sample, without an interval. {probe.command}"
        )
        figures.append(gradients.step_cosines(f"cosines-{number}", maps, caption))
        break
    middle = probes[len(probes) // 2]
    shape = middle.geometry
    caption = (
        f"Errors that one probe predicts for every N and T, measured at {shape.num_envs}×{shape.num_steps} after "
        f"update {middle.update:,}. {middle.command}"
    )
    return [*figures, gradients.error_surface(f"surface-{number}", middle, caption)]
