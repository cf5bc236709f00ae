"""What a run is: one dataclass is the configuration, its documentation and its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from rollshape.algorithms.registry import ALGORITHMS, AlgorithmSettings, check_settings
from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import RolloutSizes, RrdPreset

DEFAULT_TIMESTEPS = 500_000
OLD_NAMES = {f"normalise_{what}": f"normalize_{what}" for what in ("advantages", "observations", "rewards")}


@dataclass(frozen=True, kw_only=True)
class Spec(AlgorithmSettings):
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    env: Annotated[str, "environment id: CartPole-v1, tabular:FrozenLake-v1, gymnax:Breakout-MinAtar, …"] = (
        "CartPole-v1"
    )
    env_kwargs: Annotated[dict[str, Any] | None, "options of the environment, as name=value …"] = None
    seed: Annotated[int, "seed of everything random"] = 0

    total_timesteps: Annotated[int, "budget in environment steps"] = DEFAULT_TIMESTEPS

    stagger: Annotated[Literal["none", "counter", "burn-in"], "how resets are staggered over the environments"] = "none"
    episodic_reward: Annotated[bool, "give an episode's return at its end and no reward before (RRD: always)"] = False
    rrd_preset: Annotated[
        RrdPreset | None, "RRD, SAC: sizes for vectors, for images (default: by the env), the paper's"
    ] = None

    eval_after: Annotated[float | None, "score fresh episodes once the training return has reached this"] = None
    eval_every: Annotated[int | None, "score fresh episodes every so many timesteps"] = None
    stop_at_return: Annotated[float | None, "stop when an evaluation score reaches this"] = None
    monitor_gradients: Annotated[bool, "log noise scale, effective sample size and SNR of the gradient"] = False
    log_every: Annotated[int | None, "updates per logging interval (default: about 100 intervals)"] = None
    checkpoint_every: Annotated[int | None, "updates between checkpoints (default: 10 per run)"] = None

    def plan(self, **facts: Any) -> Plan:
        """Return the sizes of the run; `facts` about the environment add its memory. Raises RequestError."""
        sizes = {field.name: getattr(self, field.name) for field in fields(RolloutSizes)}
        return plan(**sizes, total_timesteps=self.total_timesteps, preset=self.rrd_preset, **facts)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """Return the spec that `to_dict` wrote, also in the spelling of older versions; unknown keys are ignored."""
        renamed = {OLD_NAMES.get(name, name): value for name, value in values.items()}
        known: dict[str, Any] = {field.name: renamed[field.name] for field in fields(cls) if field.name in renamed}
        if "hidden_sizes" in known:
            known["hidden_sizes"] = tuple(known["hidden_sizes"])  # JSON has no tuples
        return cls(**known)


_POSITIVE = (
    "learning_rate", "clip_range", "adaptive_kl", "target_kl", "max_grad_norm", "eval_every", "log_every",
    "checkpoint_every", "num_shards", "microbatch_size", "reference_rollout_size",
)  # fmt: skip


def checked_spec(spec: Spec) -> Spec:
    """Return the spec, or raise a RequestError that names the first value which cannot be meant."""
    if spec.algo not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise RequestError("choice", f"algo must be one of {known}, got {spec.algo!r}.", f"Choose one of {known}.")
    for name in _POSITIVE:
        value = getattr(spec, name)
        if value not in (None, "auto") and not 0 < value < float("inf"):
            raise RequestError("number-range", f"{name} must be positive, got {value!r}.", f"Check {name}.")
    if not 0 <= spec.polyak < 1:
        raise RequestError("number-range", f"polyak must lie in [0, 1), got {spec.polyak!r}.", "Typical: 0.995.")
    if not 0 <= spec.seed < 2**32:
        raise RequestError("number-range", f"seed must lie in [0, 2³²), got {spec.seed}.", "Choose another seed.")
    if spec.stop_at_return is not None and spec.eval_after is None and spec.eval_every is None:
        raise RequestError(
            "contradiction",
            "stop_at_return needs scores, but neither eval_after nor eval_every says when to take them.",
            f"Add --eval-after {spec.stop_at_return:g}, or less.",
        )
    check_settings(spec)
    return spec
