"""The shapes of a race: from the planner, or as the user lists them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from rollshape.envs.registry import kind
from rollshape.errors import RequestError
from rollshape.training.spec import Spec, checked_spec

Variation = Literal["minibatch", "lr"]
NUM_ENVS = (2, 8, 32, 128, 512, 2048, 8192)
NUM_STEPS = (8, 32, 128, 512, 2048)
MAX_ENVS = {"functional": 512, "host": 128}  # by default
MIN_ROLLOUT, MAX_ROLLOUT = 64, 65_536
MIN_UPDATES, MAX_UPDATES = 20, 16_384  # of the budget; a race compares first after a twentieth of it
MIN_CANDIDATES = 2
MORE_MINIBATCHES = 4  # times as many, of a quarter of the size
REFERENCE_MINIBATCH = 256  # at which √ scaling leaves the learning rate as it is
_SHAPE = re.compile(r"([1-9][0-9]{0,8})\s*[x×*]\s*([1-9][0-9]{0,8})", re.IGNORECASE)


def planned_shapes(spec: Spec, max_envs: int | None = None) -> list[tuple[int, int]]:
    """Return shapes a factor of four apart whose rollouts leave between 20 and 16,384 updates of the budget."""
    most = max_envs or MAX_ENVS[kind(spec.env)]
    counts = sorted({*(count for count in NUM_ENVS if count <= most), *([most] if most < NUM_ENVS[0] else [])})
    shapes = [shape for shape in itertools.product(counts, NUM_STEPS) if _suits(spec, *shape)]
    if len(shapes) < MIN_CANDIDATES:
        raise RequestError(
            "zero-updates",
            f"total_timesteps {spec.total_timesteps:,} is too small for a race: fewer than two shapes with rollouts of "
            f"{MIN_ROLLOUT} samples or more leave {MIN_UPDATES} updates.",
            f"Use --total-timesteps {MIN_UPDATES * MIN_ROLLOUT * 16:,} or more, or name the --shapes.",
        )
    return shapes


def _suits(spec: Spec, num_envs: int, num_steps: int) -> bool:
    if not MIN_ROLLOUT <= num_envs * num_steps <= MAX_ROLLOUT:
        return False
    try:
        updates = checked_spec(spec, num_envs=num_envs, num_steps=num_steps).plan().num_updates or 0
    except RequestError:
        return False
    return MIN_UPDATES <= updates <= MAX_UPDATES


def parse_shapes(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return the shapes of `4x32`, `64×128`, …; each once."""
    shapes = []
    for text in texts:
        match = _SHAPE.fullmatch(text.strip())
        if match is None:
            raise RequestError("flags", f"{text!r} is not a shape.", "Write num_envs x num_steps, such as 64x32.")
        shapes.append((int(match.group(1)), int(match.group(2))))
    distinct = list(dict.fromkeys(shapes))
    if len(distinct) < MIN_CANDIDATES:
        raise RequestError(
            "flags", "One shape cannot be raced.", "Name at least two --shapes, or use `rollshape train` for one."
        )
    return distinct


def check_trainable(spec: Spec, points: Sequence[dict[str, Any]]) -> None:
    """Refuse points of which fewer than two can be trained, with the reason of the first that cannot."""
    errors: list[tuple[dict[str, Any], RequestError]] = []
    for point in points:
        try:
            checked_spec(spec, **point).plan()
        except RequestError as error:
            errors.append((point, error))
    num_legal = len(points) - len(errors)
    if errors and num_legal < MIN_CANDIDATES:
        point, first = errors[0]
        raise RequestError(
            "race",
            f"{num_legal or 'None'} of {len(points)} shapes can be trained; a race needs two. "
            f"{point['num_envs']}×{point['num_steps']}: {first.message}",
            first.fix,
        )


def candidate_points(spec: Spec, shapes: Sequence[tuple[int, int]], vary: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Return the points of a race: each shape, and where `vary` says so further minibatch sizes and learning rates."""
    return tuple(point for shape in shapes for point in _variants(spec, *shape, vary))


def _variants(spec: Spec, num_envs: int, num_steps: int, vary: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the shape as planned, with a quarter of the minibatch size, and with the learning rate lr·√(M/256)."""
    shape = {"num_envs": num_envs, "num_steps": num_steps}
    yield shape
    try:
        plan = checked_spec(spec, **shape).plan()
    except RequestError:  # reported for the shape itself
        return
    if "minibatch" in vary:
        smaller = {**shape, "minibatch_size": plan.split_minibatch(MORE_MINIBATCHES)}
        if smaller["minibatch_size"] != plan.minibatch_size:
            yield smaller
    if "lr" in vary:
        scaled = float(f"{spec.learning_rate * (plan.minibatch_size / REFERENCE_MINIBATCH) ** 0.5:.3g}")
        if scaled != spec.learning_rate:
            yield {**shape, "learning_rate": scaled}
