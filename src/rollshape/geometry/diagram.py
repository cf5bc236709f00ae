"""Diagrams of a plan (rollout → minibatches → updates) as text, Mermaid and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from rollshape.geometry.plan import Plan, ReplayPlan


@dataclass(frozen=True, slots=True)
class Box:
    """One box of the diagram: its title, its number, and how the number is computed."""

    title: str
    number: str
    detail: str


def diagram_boxes(plan: Plan) -> list[Box]:
    """Return the boxes in the order of the data flow."""
    if plan.replay:
        return _replay_boxes(plan, plan.replay)
    dropped = f", {plan.dropped:,} omitted" if plan.dropped else ""
    agents = f" × {plan.num_agents:,} agents" if plan.num_agents > 1 else ""
    what = f"sequences of {plan.seq_length:,} steps" if plan.seq_length else "shuffled"
    ranks = f", in {plan.world_size:,} processes" if plan.world_size > 1 else ""
    return [
        Box("environments", f"N = {plan.num_envs:,}", f"in parallel{ranks}"),
        Box(
            "rollout",
            _count(plan.rollout_size, "sample"),
            f"{_count(plan.num_envs, 'env')} × {_count(plan.num_steps, 'step')}{agents}",
        ),
        Box("minibatches", f"{plan.num_minibatches:,} × {plan.minibatch_size:,}", f"{what}{dropped}"),
        Box("epochs", f"{plan.num_epochs:,}", f"each sample is used {plan.sample_reuse:.3g}×"),
        Box(
            "update",
            _count(plan.gradient_steps_per_update, "gradient step"),
            f"{_count(plan.num_epochs, 'epoch')} × {plan.num_minibatches:,}",
        ),
        _run_box(plan),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _replay_boxes(plan: Plan, replay: ReplayPlan) -> list[Box]:
    subsequences = Box(
        "reward batch",
        f"{replay.rrd_batch_size:,} timesteps",
        f"{_count(replay.num_subsequences, 'subsequence')} × {replay.rrd_sample_size:,}",
    )
    return [
        Box(
            "collect",
            _count(replay.steps_per_iteration, "step"),
            f"{_count(plan.num_envs, 'env')} × {_count(plan.num_steps, 'step')}",
        ),
        Box("replay buffer", f"{replay.buffer_size:,} transitions", f"learning starts at {replay.learning_starts:,}"),
        Box("transition batch", f"{replay.transition_batch_size:,} transitions", "for critics and policy"),
        *([subsequences] if replay.num_subsequences else []),
        Box(
            "iteration",
            _count(replay.train_batches, "gradient step"),
            f"{replay.updates_per_step:.3g} per environment step",
        ),
        _run_box(plan),
    ]


def _run_box(plan: Plan) -> Box:
    if plan.num_updates is None or plan.actual_timesteps is None:
        return Box("run", "repeat", "no budget")
    return Box(
        "run",
        _count(plan.num_updates, "update"),
        f"{plan.actual_timesteps:,} timesteps, {plan.gradient_steps:,} gradient steps",
    )


def text(plan: Plan) -> str:
    """Return the diagram as text, boxes from top to bottom."""
    boxes = diagram_boxes(plan)
    width = max(len(line) for box in boxes for line in (f"{box.title}: {box.number}", box.detail)) + 2
    lines = []
    for i, box in enumerate(boxes):
        if i:
            lines.append("│".center(width + 2).rstrip())
            lines.append("▼".center(width + 2).rstrip())
        lines.append("┌" + "─" * width + "┐")
        lines.append("│" + f"{box.title}: {box.number}".center(width) + "│")
        lines.append("│" + box.detail.center(width) + "│")
        lines.append("└" + "─" * width + "┘")
    return "\n".join(lines)


def mermaid(plan: Plan) -> str:
    """Return the diagram as a Mermaid flowchart."""
    boxes = diagram_boxes(plan)
    lines = ["flowchart LR"]
    lines += [f'    s{i}["<b>{box.title}</b><br/>{box.number}<br/>{box.detail}"]' for i, box in enumerate(boxes)]
    lines += [f"    s{i} --> s{i + 1}" for i in range(len(boxes) - 1)]
    lines.append(f"    s{len(boxes) - 1} -->|next policy| s0")
    return "\n".join(lines)


_HEIGHT, _GAP, _MARGIN = 92, 34, 16
_STYLE = (
    "text{font-family:system-ui,sans-serif;text-anchor:middle;fill:#1a2233}"
    ".box{fill:#eef3fb;stroke:#3b6fb5;stroke-width:1.5}.title{font-size:13px;fill:#3b6fb5}"
    ".number{font-size:18px;font-weight:600}.detail{font-size:11.5px}.arrow{stroke:#3b6fb5;stroke-width:2;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e8edf6}.box{fill:#1b2536;stroke:#7fa8e0}.title{fill:#7fa8e0}"
    ".arrow{stroke:#7fa8e0}}"
)


_HEAD = (
    "<style>{style}</style>",
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#3b6fb5"/></marker></defs>',
)


def svg(plan: Plan, *, vertical: bool = False) -> str:
    """Return the diagram as a self-contained SVG with a light and a dark theme; `vertical` for narrow screens."""
    boxes = diagram_boxes(plan)
    widths = [max(120.0, 10.5 * len(box.number) + 24, 6.6 * len(box.detail) + 24) for box in boxes]
    width, height, parts = _column(boxes, max(widths)) if vertical else _row(boxes, widths)
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="Data flow of a plan: rollout, minibatches, updates">'
    )
    return "\n".join([start, *(line.replace("{style}", _STYLE) for line in _HEAD), *parts, "</svg>"])


def _row(boxes: list[Box], widths: list[float]) -> tuple[int, int, list[str]]:
    """Return width, height and elements of boxes from left to right."""
    width = round(2 * _MARGIN + sum(widths) + (len(boxes) - 1) * _GAP)
    parts = []
    for i, box in enumerate(boxes):
        x = round(_MARGIN + sum(widths[:i]) + i * _GAP)
        parts += _draw(box, x, _MARGIN, widths[i])
        if i:
            parts.append(_arrow(f"M{x - _GAP + 3} {_MARGIN + _HEIGHT / 2}H{x - 3}"))
    first, last, low = round(_MARGIN + widths[0] / 2), round(width - _MARGIN - widths[-1] / 2), _MARGIN + _HEIGHT
    parts.append(
        _arrow(f"M{last} {low + 2}V{low + 24}H{first}V{low + 4}")
        + f'<text class="detail" x="{width / 2}" y="{low + 40}">next policy</text>'
    )
    return width, 2 * _MARGIN + _HEIGHT + 44, parts


def _column(boxes: list[Box], box_width: float) -> tuple[int, int, list[str]]:
    """Return width, height and elements of boxes from top to bottom."""
    step, side = _HEIGHT + _GAP, round(_MARGIN + box_width)
    parts = []
    for i, box in enumerate(boxes):
        parts += _draw(box, _MARGIN, _MARGIN + i * step, box_width)
        if i:
            y = _MARGIN + i * step
            parts.append(_arrow(f"M{round(_MARGIN + box_width / 2)} {y - _GAP + 3}V{y - 3}"))
    first, last = _MARGIN + _HEIGHT // 2, _MARGIN + (len(boxes) - 1) * step + _HEIGHT // 2
    middle = (first + last) // 2
    parts.append(
        _arrow(f"M{side + 2} {last}H{side + 22}V{first}H{side + 4}")
        + f'<text class="detail" x="{side + 36}" y="{middle}" transform="rotate(90 {side + 36} {middle})">'
        "next policy</text>"
    )
    return side + 44, 2 * _MARGIN + len(boxes) * step - _GAP, parts


def _draw(box: Box, x: int, y: int, width: float) -> list[str]:
    """Return the elements of one box."""
    middle = round(x + width / 2)
    lines = (("title", 26, box.title), ("number", 52, box.number), ("detail", 76, box.detail))
    return [
        f'<rect class="box" x="{x}" y="{y}" width="{width:.0f}" height="{_HEIGHT}" rx="9"/>',
        *(f'<text class="{css}" x="{middle}" y="{y + dy}">{escape(line)}</text>' for css, dy, line in lines),
    ]


def _arrow(path: str) -> str:
    return f'<path class="arrow" marker-end="url(#tip)" d="{path}"/>'
