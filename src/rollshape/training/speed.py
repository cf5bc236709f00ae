"""The speed of training at one shape: steps/s of several intervals, after everything is compiled."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rollshape.algorithms.parallel import reserve_devices
from rollshape.envs.access import EnvAccess
from rollshape.envs.inspect import functional_facts, host_facts
from rollshape.envs.registry import kind, make
from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.plan import Plan
from rollshape.training.setup import new_driver
from rollshape.training.spec import Spec, checked_spec

INTERVALS = 5  # at least, so that they have quartiles
MOST_STEPS, MOST_UPDATES = 100_000, 256  # per interval
NUM_EPOCHS = NUM_MINIBATCHES = 4


class Quartiles(NamedTuple):
    """The median of several measurements, and the range of the middle half of them."""

    low: float
    median: float
    high: float


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the quartiles of at least two values."""
    return Quartiles(*statistics.quantiles(values, n=4, method="inclusive"))


def new_spec(env_id: str, shape: str) -> Spec:
    """Return the spec of a shape such as 64x128; the budget has no effect on the speed."""
    try:
        num_envs, num_steps = (int(part) for part in shape.lower().replace("×", "x").split("x"))
    except ValueError:
        raise RequestError("flags", f"{short_repr(shape)} is not a shape.", "Write NxT, such as 64x128.") from None
    return checked_spec(
        env=env_id, num_envs=num_envs, num_steps=num_steps, num_minibatches=NUM_MINIBATCHES, num_epochs=NUM_EPOCHS,
        entropy_coef=0.01, total_timesteps=max(1, num_envs * num_steps),
    )  # fmt: skip


def env_facts(env_id: str, access: EnvAccess) -> dict[str, Any]:
    """Return what the planner has to know of an environment; plans of several shapes share it."""
    reserve_devices()
    return host_facts(env_id, access) if kind(env_id) == "host" else functional_facts(make(env_id))


class TrainingTimer:
    """Trains at one shape and times it interval by interval; compiles when it is created. Close it at the end."""

    def __init__(self, spec: Spec, plan: Plan, seconds: float, access: EnvAccess) -> None:
        self.plan = plan
        self._driver = new_driver(spec, plan, _most_updates(plan), access=access)
        try:
            self._state = self._driver.start()
            self._driver.restore(None)
            self._driver.compile()
            self.compile_s = self._driver.compile_s
            self._advance(1)  # compiles the small programs that act in host environments
            self._count = self._choose_count(seconds / INTERVALS)
        except BaseException:
            self.close()
            raise

    @property
    def network(self) -> Any:
        """The network that is trained."""
        return self._state.learner.network

    def time_interval(self) -> float:
        """Train for one interval; return its steps/s."""
        return self._count * self.plan.rollout_size / self._advance(self._count)

    def time_intervals(self, seconds: float, before_interval: Callable[[], object] = lambda: None) -> list[float]:
        """Train for about `seconds` in at least 5 intervals of the same length; return the steps/s of each."""
        speeds: list[float] = []
        spent = 0.0
        while len(speeds) < INTERVALS or spent < seconds:
            before_interval()
            speeds.append(self.time_interval())
            spent += self._count * self.plan.rollout_size / speeds[-1]
        return speeds

    def close(self) -> None:
        """Close the environments."""
        self._driver.close()

    def _advance(self, count: int) -> float:
        """Make updates; return their seconds."""
        self._state, _, times = self._driver.advance(self._state, count)
        return sum(times)

    def _choose_count(self, seconds: float) -> int:
        """Return the number of updates that take about `seconds`, after as many for warming up.

        The number grows from 1, because a slow environment must not be run for a whole interval; a compiled program
        with fewer updates than its interval has a fixed cost, so the time of a single one says little.
        """
        count, most = 1, self._driver.interval
        while (spent := self._advance(count)) < seconds and count < most:
            count = min(most, 4 * count)
        return max(1, min(most, int(count * seconds / spent)))


def _most_updates(plan: Plan) -> int:
    return max(1, min(MOST_UPDATES, MOST_STEPS // plan.rollout_size))
