"""The pictures of concepts.md, as SVG with a light and a dark theme. `docs/build.py` writes them."""

from __future__ import annotations

from collections.abc import Iterable

from rollshape.geometry.rules.window import edge_weight

_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:13px;fill:#18202f}.m{fill:#556073}.c{text-anchor:middle}"
    ".e{text-anchor:end}.a{fill:#2a62b0}.b{fill:#c2570c}.g{fill:#dde3ec}.l{fill:none;stroke:#2a62b0;stroke-width:2.5}"
    ".x{stroke:#8a94a6;stroke-width:1}.o{fill:none;stroke:#c2570c;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6ebf4}.m{fill:#9ba7bb}.a{fill:#86b0ea}.b{fill:#f0a05f}"
    ".g{fill:#2a3446}.l{stroke:#86b0ea}.o{stroke:#f0a05f}}"
)


def _svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}"><style>{_STYLE}</style>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{text}</text>'


def _cell(x: float, y: float, kind: str, size: float = 16) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" rx="3" class="{kind}"/>'


def rollout() -> str:
    """A rollout of 4 environments × 12 steps, and two of its minibatches."""
    parts = [_text(10, 20, "One rollout: N = 4 environments × T = 12 steps = 48 samples")]
    chosen = {(0, 1), (2, 4), (1, 7), (3, 9), (0, 10), (2, 0)}
    for env in range(4):
        parts.append(_text(106, 51 + 22 * env, f"environment {env + 1}", "e m"))
        parts += [_cell(116 + 20 * step, 38 + 22 * env, "b" if (env, step) in chosen else "a") for step in range(12)]
    parts.append(_text(236, 144, "steps →", "c m"))
    parts += [
        _text(390, 50, "Each epoch shuffles the samples"),
        _text(390, 70, "and cuts them into minibatches."),
        _text(390, 90, "Orange: one minibatch of 6 samples."),
    ]
    parts += [_text(390, 116, "One minibatch gives one gradient step.", "m")]
    return _svg(700, 156, "A rollout as a grid of environments and steps, with one minibatch marked", parts)


def terms() -> str:
    """Independent steps (Term 1 only) and correlated steps (Term 2 adds to it)."""
    parts = [_text(10, 20, "Steps that are independent"), _text(380, 20, "Steps that repeat each other")]
    noise = [3, -8, 6, -2, 9, -7, 1, -5, 8, -3, 5, -6]
    slow = [3, 5, 6, 8, 9, 9, 8, 6, 4, 3, 1, 0]
    for x, values in ((10, noise), (380, slow)):
        parts.append(f'<line class="x" x1="{x}" x2="{x + 290}" y1="80" y2="80"/>')
        parts += [
            f'<rect x="{x + 6 + 24 * i}" y="{80 - max(value, 0) * 4}" width="14" height="{abs(value) * 4}" class="a"/>'
            for i, value in enumerate(values)
        ]
    parts += [_text(10, 146, "Errors cancel in the mean: variance = Term 1.", "m")]
    parts += [_text(380, 146, "Errors add up: variance = Term 1 + Term 2.", "m")]
    return _svg(700, 156, "Errors of consecutive steps: independent ones cancel, correlated ones add up", parts)


def edge() -> str:
    """The mean weight of the value at the window's edge, by T."""
    left, low, width, height = 60, 170, 560, 140
    steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]

    def place(i: float, weight: float) -> tuple[float, float]:
        return left + width * i / (len(steps) - 1), low - height * weight

    points = [place(i, edge_weight(t, 0.99, 0.95)) for i, t in enumerate(steps)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [
        f'<line class="x" x1="{left}" x2="{left + width}" y1="{low}" y2="{low}"/>',
        f'<path class="l" d="M{path}"/>',
    ]
    parts += [_text(x, low + 18, str(t), "c m") for (x, _), t in zip(points, steps, strict=True)]
    parts += [_text(left - 8, place(0, weight)[1] + 4, f"{weight:.1f}", "e m") for weight in (0.0, 0.5, 1.0)]
    parts += [
        _text(x + 6, y - 8, f"{edge_weight(t, 0.99, 0.95):.2f}")
        for (x, y), t in zip(points, steps, strict=True)
        if t in (8, 32, 128)
    ]
    parts += [
        _text(left + width / 2, low + 38, "steps T (γ = 0.99, λ = 0.95)", "c m"),
        _text(10, 18, "Mean weight of the value at the window's edge"),
    ]
    return _svg(660, 216, "The weight of the value function at the edge falls with the number of steps", parts)


def reset_phase() -> str:
    """Windows of environments that reset together, and of staggered ones."""
    parts = [_text(10, 20, "All environments reset together"), _text(370, 20, "Staggered resets")]
    for x, offsets in ((10, (0, 0, 0, 0)), (370, (0, 4, 8, 2))):
        for env, offset in enumerate(offsets):
            parts += [
                f'<rect x="{x + 24 * step}" y="{34 + 22 * env}" width="22" height="16" rx="3" class="a" '
                f'opacity="{0.2 + 0.8 * ((step + offset) % 12) / 11:.2f}"/>'
                for step in range(12)
            ]
        parts.append(f'<rect x="{x + 95}" y="30" width="98" height="90" rx="4" class="o"/>')
    parts += [
        _text(10, 142, "A window (orange) contains one phase only.", "m"),
        _text(370, 142, "A window contains all phases.", "m"),
    ]
    return _svg(700, 152, "Windows of environments that reset together contain one phase of the episode only", parts)


def rrd() -> str:
    """The four sizes of RRD."""
    parts = [_text(10, 20, "Replay buffer of whole episodes")]
    for episode in range(3):
        kinds = ["b" if (step * 7 + episode * 5) % 9 < 2 else "g" for step in range(28)]
        parts += [_cell(10 + 14 * step, 32 + 20 * episode, kind, 12) for step, kind in enumerate(kinds)]
    lines = [
        "transition_batch_size: single transitions",
        "for policy and critics",
        "rrd_sample_size: orange steps of one episode",
        "rrd_batch_size: steps of all sampled episodes",
        "train_batches: gradient steps per iteration",
    ]
    parts += [_text(430, 34 + 21 * i, line, "m" if i == 1 else "") for i, line in enumerate(lines)]
    parts.append(_text(10, 136, "Each row is an episode. Its return must equal the sum of predicted rewards.", "m"))
    return _svg(740, 150, "Randomly chosen steps of episodes in a replay buffer", parts)


def pictures() -> dict[str, str]:
    """Return the content of each picture by its file name."""
    drawn = {"rollout": rollout(), "terms": terms(), "edge-weight": edge(), "reset-phase": reset_phase(), "rrd": rrd()}
    return {f"picture-{name}.svg": content for name, content in drawn.items()}
