"""What a run is: one dataclass is the configuration, its documentation and its command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from rollshape.errors import RequestError
from rollshape.geometry.plan import Plan, plan

AlgoName = Literal["ppo", "a2c", "reinforce", "rrd", "sac"]
RrdPreset = Literal["rrd-vector", "rrd-image", "rrd-paper"]
DEFAULT_TIMESTEPS = 500_000
REPLAY_ALGOS = ("rrd", "sac")
REPLAY_SIZES = (
    "transition_batch_size", "train_batches", "steps_per_iteration", "rrd_batch_size", "rrd_sample_size",
    "learning_starts", "buffer_size",
)  # fmt: skip
_ON_POLICY_ONLY = ("normalize_observations", "normalize_rewards", "anneal_lr", "adaptive_kl", "target_kl", "clip_value")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    env: Annotated[str, "environment id: CartPole-v1, tabular:FrozenLake-v1, gymnax:Breakout-MinAtar, …"] = (
        "CartPole-v1"
    )
    env_kwargs: Annotated[dict[str, Any] | None, "options of the environment, as name=value …"] = None
    algo: Annotated[AlgoName, "the algorithm"] = "ppo"
    seed: Annotated[int, "everything random follows from it"] = 0

    num_envs: Annotated[int | None, "N, parallel environments"] = None
    num_steps: Annotated[int | None, "T, steps of each environment in a rollout"] = None
    rollout_size: Annotated[int | None, "N·T, samples collected before an update"] = None
    minibatch_size: Annotated[int | Literal["auto"], "M, samples in a gradient step"] = "auto"
    num_minibatches: Annotated[int | None, "K, gradient steps in an epoch (instead of M)"] = None
    num_epochs: Annotated[int | None, "passes over a rollout"] = None
    total_timesteps: Annotated[int, "budget in environment steps"] = DEFAULT_TIMESTEPS
    num_shards: Annotated[int | Literal["auto"], "parts that the environments are cut into, for as many cores"] = "auto"
    microbatch_size: Annotated[int | Literal["auto"], "samples that one gradient kernel sees"] = "auto"
    on_remainder: Annotated[Literal["error", "warn", "fix"], "what to do when the rollout does not divide"] = "error"

    learning_rate: Annotated[float, "Adam's step size"] = 3e-4
    anneal_lr: Annotated[bool, "let the learning rate fall linearly to zero"] = False
    adaptive_kl: Annotated[float | None, "KL that an adaptive learning rate steers to, minibatch by minibatch"] = None
    target_kl: Annotated[float | None, "stop the epochs of an update when approx_kl exceeds this"] = None
    gamma: Annotated[float, "discount γ"] = 0.99
    gae_lambda: Annotated[float, "GAE's λ"] = 0.95
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
    hidden_sizes: Annotated[tuple[int, ...], "widths of the hidden layers"] = (64, 64)
    stagger: Annotated[Literal["none", "counter", "burn-in"], "how resets are spread over the environments"] = "none"

    episodic_reward: Annotated[bool, "tell an episode's return when it ends, and no reward before (RRD: always)"] = (
        False
    )
    rrd_preset: Annotated[RrdPreset | None, "RRD, SAC: sizes for vectors, for images (as observed), or the paper's"] = (
        None
    )
    transition_batch_size: Annotated[int | None, "RRD, SAC: transitions in a Q and policy step"] = None
    train_batches: Annotated[int | None, "RRD, SAC: gradient steps in an iteration"] = None
    steps_per_iteration: Annotated[int | None, "RRD, SAC: environment steps in an iteration"] = None
    rrd_batch_size: Annotated[int | None, "RRD: timesteps in a reward-network step"] = None
    rrd_sample_size: Annotated[int | None, "RRD: timesteps in one subsequence"] = None
    rrd_unbiased: Annotated[bool, "RRD: take the variance of the drawn timesteps off the loss"] = False
    learning_starts: Annotated[int | None, "RRD, SAC: environment steps before the first gradient step"] = None
    buffer_size: Annotated[int | None, "RRD, SAC: observations that the replay holds, one for a transition"] = None
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
        return plan(
            algo=self.algo,
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            rollout_size=self.rollout_size,
            minibatch_size=self.minibatch_size,
            num_minibatches=self.num_minibatches,
            num_epochs=self.num_epochs,
            total_timesteps=self.total_timesteps,
            on_remainder=self.on_remainder,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            hidden_sizes=self.hidden_sizes,
            preset=self.rrd_preset,
            **{name: getattr(self, name) for name in REPLAY_SIZES},
            **facts,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """Return the spec that `to_dict` wrote.

        JSON's lists become tuples, British spellings (`normalise_…`) are accepted, fields of a newer version ignored.
        """
        spelled = {name.replace("normalise_", "normalize_"): value for name, value in values.items()}
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in spelled.items()
            if name in cls.__dataclass_fields__
        }
        return cls(**known)


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
    if spec.algo in REPLAY_ALGOS:
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
