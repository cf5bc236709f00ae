"""What a run is: one dataclass is the configuration, its documentation and its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from rollshape.algorithms.registry import AlgorithmSettings, check_settings
from rollshape.errors import RequestError
from rollshape.geometry.fields import new_record
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import MEMORY_SETTINGS, RolloutSizes, RrdPreset
from rollshape.geometry.values import BUDGET, FINITE, SEED, Range

DEFAULT_TIMESTEPS = 500_000
MOST_UPDATES = 2**31 - 1  # counted in 32 bits
MOST_METRICS = 1_000_000  # of a logging interval, one per update and epoch: they are kept in memory
MOST_GRADIENT_STEPS = 10_000_000  # of an update, whose metrics are kept until it ends
INTERVAL = Range(1, MOST_METRICS)  # updates
FINAL_EPISODES = 128
MOST_EPISODES = 1_000_000  # of a score
OLD_NAMES = {f"normalise_{what}": f"normalize_{what}" for what in ("advantages", "observations", "rewards")}


@dataclass(frozen=True, kw_only=True)
class Spec(AlgorithmSettings):
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    env: Annotated[str, "environment id: CartPole-v1, tabular:FrozenLake-v1, gymnax:Breakout-MinAtar, …"] = (
        "CartPole-v1"
    )
    env_kwargs: Annotated[dict[str, Any] | None, "options of the environment, as name=value …"] = None
    seed: Annotated[int, "seed of everything random", SEED] = 0

    total_timesteps: Annotated[int, "budget in environment steps", BUDGET] = DEFAULT_TIMESTEPS

    stagger: Annotated[Literal["none", "counter", "burn-in"], "how resets are staggered over the environments"] = "none"
    episodic_reward: Annotated[bool, "give an episode's return at its end and no reward before (RRD: always)"] = False
    rrd_preset: Annotated[
        RrdPreset | None, "RRD, SAC: sizes for vectors, for images (default: by the env), the paper's"
    ] = None

    eval_after: Annotated[float | None, "score fresh episodes once the training return has reached this", FINITE] = None
    eval_every: Annotated[int | None, "score fresh episodes every so many timesteps", BUDGET] = None
    stop_at_return: Annotated[float | None, "stop when an evaluation score reaches this", FINITE] = None
    final_episodes: Annotated[
        int, "fresh episodes of the final score, at most; 0: no final score", Range(0, MOST_EPISODES)
    ] = FINAL_EPISODES
    monitor_gradients: Annotated[bool, "log noise scale, effective sample size and SNR of the gradient"] = False
    log_every: Annotated[int | None, "updates per logging interval (default: about 100 intervals)", INTERVAL] = None
    checkpoint_every: Annotated[
        int | None, "updates between checkpoints (default: 10 per run)", Range(1, MOST_UPDATES)
    ] = None

    def plan(self, **facts: Any) -> Plan:
        """Return the sizes of the run; `facts` about the environment add its memory. Raises RequestError."""
        names = (*(field.name for field in fields(RolloutSizes)), *MEMORY_SETTINGS)
        sizes = {name: getattr(self, name) for name in names}
        made = plan(**sizes, total_timesteps=self.total_timesteps, preset=self.rrd_preset, **facts)
        _check_length(self, made)
        return made

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """Return the spec that `to_dict` wrote, also in the spelling of older versions; unknown keys are ignored."""
        renamed = {OLD_NAMES.get(name, name): value for name, value in values.items()}
        return new_record(
            cls, None, {field.name: renamed[field.name] for field in fields(cls) if field.name in renamed}
        )


def checked_spec(spec: Spec | None = None, /, **changes: Any) -> Spec:
    """Return the spec with the changes, every value checked and converted; a RequestError names the first bad one."""
    spec = new_record(Spec, spec, changes)
    if spec.stop_at_return is not None and spec.eval_after is None and spec.eval_every is None:
        raise RequestError(
            "contradiction",
            "stop_at_return needs scores, but neither eval_after nor eval_every says when to take them.",
            f"Add --eval-after {spec.stop_at_return:g}, or less.",
        )
    check_settings(spec)
    return spec


def _check_length(spec: Spec, made: Plan) -> None:
    """Raise a RequestError if the run has more updates, or one interval more metrics, than can be held."""
    updates = made.num_updates or 0
    if updates > MOST_UPDATES:
        most = MOST_UPDATES * made.rollout_size
        raise RequestError(
            "run-length",
            f"total_timesteps {spec.total_timesteps:,} are {updates:,} updates; the maximum is {MOST_UPDATES:,}.",
            f"Use total_timesteps {most:,} or less, or a larger rollout.",
            [{"total_timesteps": most, "log_every": spec.log_every or MOST_METRICS // made.num_epochs}],
        )
    steps = made.gradient_steps_per_update
    if steps > MOST_GRADIENT_STEPS:
        raise RequestError(
            "run-length",
            f"An update of {steps:,} gradient steps exceeds the maximum of {MOST_GRADIENT_STEPS:,}.",
            "Use fewer epochs (for SAC and RRD, fewer train_batches), or larger minibatches.",
        )
    interval = spec.log_every or -(-updates // 100)  # the default, about 100 intervals
    if interval * made.num_epochs > MOST_METRICS:
        most = MOST_METRICS // made.num_epochs
        raise RequestError(
            "run-length",
            f"A logging interval of {interval:,} updates of {made.num_epochs:,} epochs has more than {MOST_METRICS:,} "
            "rows of metrics.",
            f"Use --log-every {most:,} or less.",
            [{"log_every": most}],
        )
