"""What a run is: one dataclass is the configuration, its documentation and its command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal

from rollshape.errors import RequestError
from rollshape.geometry.algorithms import REPLAY_ALGORITHMS
from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import RolloutSizes, RrdPreset

DEFAULT_TIMESTEPS = 500_000
_ON_POLICY_ONLY = ("normalize_observations", "normalize_rewards", "anneal_lr", "adaptive_kl", "target_kl", "clip_value")


@dataclass(frozen=True, kw_only=True)
class Spec(RolloutSizes):
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    env: Annotated[str, "environment id: CartPole-v1, tabular:FrozenLake-v1, gymnax:Breakout-MinAtar, …"] = (
        "CartPole-v1"
    )
    env_kwargs: Annotated[dict[str, Any] | None, "options of the environment, as name=value …"] = None
    seed: Annotated[int, "everything random follows from it"] = 0

    total_timesteps: Annotated[int, "budget in environment steps"] = DEFAULT_TIMESTEPS
    num_shards: Annotated[int | Literal["auto"], "parts that the environments are cut into, for as many cores"] = "auto"
    microbatch_size: Annotated[int | Literal["auto"], "samples that one gradient kernel sees"] = "auto"

    learning_rate: Annotated[float, "Adam's step size"] = 3e-4
    anneal_lr: Annotated[bool, "let the learning rate fall linearly to zero"] = False
    adaptive_kl: Annotated[float | None, "KL that an adaptive learning rate steers to, minibatch by minibatch"] = None
    target_kl: Annotated[float | None, "stop the epochs of an update when approx_kl exceeds this"] = None
    clip_range: Annotated[float, "PPO's ε"] = 0.2
    clip_value: Annotated[bool, "clip the value loss by ε, too"] = False
    entropy_coef: Annotated[float, "coefficient of the entropy bonus"] = 0.0
    value_coef: Annotated[float, "factor on mean((V − R)²)"] = 0.5
    max_grad_norm: Annotated[float | None, "clip of the global gradient norm"] = 0.5
    normalize_advantages: Annotated[Literal["minibatch", "rollout", "off"], "over what advantages are normalised"] = (
        "minibatch"
    )
    normalize_observations: Annotated[bool, "by running mean and deviation"] = False
    normalize_rewards: Annotated[bool, "by the running deviation of the discounted return"] = False
    baseline: Annotated[Literal["none", "mean", "value"], "REINFORCE: what is subtracted from the return"] = "value"
    stagger: Annotated[Literal["none", "counter", "burn-in"], "how resets are spread over the environments"] = "none"

    episodic_reward: Annotated[bool, "tell an episode's return when it ends, and no reward before (RRD: always)"] = (
        False
    )
    rrd_preset: Annotated[RrdPreset | None, "RRD, SAC: sizes for vectors, for images (as observed), or the paper's"] = (
        None
    )
    rrd_unbiased: Annotated[bool, "RRD: take the variance of the drawn timesteps off the loss"] = False
    polyak: Annotated[float, "RRD, SAC: share of itself that a target network keeps in a step"] = 0.995

    eval_after: Annotated[float | None, "score fresh episodes from when the training return first reaches this"] = None
    eval_every: Annotated[int | None, "score fresh episodes whenever so many timesteps have passed"] = None
    stop_at_return: Annotated[float | None, "end the run when such a score reaches this"] = None
    monitor_gradients: Annotated[bool, "noise scale, effective sample size and SNR of the gradient in every row"] = (
        False
    )
    log_every: Annotated[int | None, "updates in a logging interval (about 100 intervals)"] = None
    checkpoint_every: Annotated[int | None, "updates between checkpoints (10 a run)"] = None

    def plan(self, **facts: Any) -> Plan:
        """The sizes of the run; a RequestError where they cannot be. `facts` of the environment add its memory."""
        sizes = {field.name: getattr(self, field.name) for field in fields(RolloutSizes)}
        return plan(**sizes, total_timesteps=self.total_timesteps, preset=self.rrd_preset, **facts)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def checked_spec(spec: Spec) -> Spec:
    """The spec, or a RequestError that names the first number which cannot be meant."""
    positive = (
        "learning_rate",
        "clip_range",
        "adaptive_kl",
        "target_kl",
        "max_grad_norm",
        "eval_every",
        "log_every",
        "checkpoint_every",
        "num_shards",
        "microbatch_size",
    )
    for name in positive:
        value = getattr(spec, name)
        if value not in (None, "auto") and not 0 < value < float("inf"):
            raise RequestError("number-range", f"{name} must be positive, got {value!r}.", f"Check {name}.")
    if spec.stop_at_return is not None and spec.eval_after is None and spec.eval_every is None:
        raise RequestError(
            "contradiction",
            "stop_at_return needs scores, and neither eval_after nor eval_every says when they are taken.",
            f"Add --eval-after {spec.stop_at_return:g}, or less.",
        )
    if spec.algo in REPLAY_ALGORITHMS:
        _check_replay(spec)
    if not 0 <= spec.seed < 2**32:
        raise RequestError("number-range", f"seed must lie in [0, 2³²), got {spec.seed}.", "Choose another seed.")
    return spec


def _check_replay(spec: Spec) -> None:
    for name in _ON_POLICY_ONLY:
        if getattr(spec, name):
            raise RequestError("contradiction", f"{name} is PPO's and its kin's, not {spec.algo}'s.", "Leave it out.")
    if not 0 <= spec.polyak < 1:
        raise RequestError("number-range", f"polyak must lie in [0, 1), got {spec.polyak!r}.", "Typical: 0.995.")
    if spec.rrd_unbiased and (spec.algo != "rrd" or spec.rrd_sample_size == 1):
        why = "RRD's" if spec.algo != "rrd" else "a variance over at least two timesteps: rrd_sample_size is 1"
        raise RequestError("contradiction", f"rrd_unbiased is {why}.", "Leave it out.")
    if spec.num_shards not in (1, "auto"):
        raise RequestError(
            "layout", f"{spec.algo} is computed in one shard, not in {spec.num_shards}.", "Leave it out."
        )
