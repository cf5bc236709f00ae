"""The planner's input: any subset of these fields. The dataclass is also the command line of `rollshape plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from rollshape.geometry.algorithms import Algo
from rollshape.geometry.values import BUDGET, COUNT, MOST_TIMESTEPS, POSITIVE, UNIT, Range

OnRemainder = Literal["error", "warn", "fix"]
ActionKind = Literal["discrete", "continuous"]
RrdPreset = Literal["rrd-vector", "rrd-image", "rrd-paper"]

AGENTS = Range(1, 1_000_000)
RANKS = Range(1, 1_000_000)
EPOCHS = Range(1, 1_000_000)
LAYER = Range(1, 2**24)  # units of a hidden layer


@dataclass(frozen=True, kw_only=True)
class RolloutSizes:
    """The sizes that a plan and a training run have in common; None means that the planner chooses."""

    algo: Annotated[Algo, "training algorithm"] = "ppo"
    num_envs: Annotated[int | None, "N, number of parallel environments", COUNT] = None
    num_steps: Annotated[int | None, "T, steps per environment in each rollout", COUNT] = None
    rollout_size: Annotated[int | None, "N·T, samples per rollout", COUNT] = None
    minibatch_size: Annotated[int | Literal["auto"], "M, samples per gradient step", COUNT] = "auto"
    num_minibatches: Annotated[int | None, "K, minibatches per epoch (alternative to M)", COUNT] = None
    num_epochs: Annotated[
        int | None, "passes over each rollout (default: 4 for PPO, 1 for A2C and REINFORCE)", EPOCHS
    ] = None
    on_remainder: Annotated[OnRemainder, "what to do if M does not divide the rollout size"] = "error"

    gamma: Annotated[float, "discount factor γ", UNIT] = 0.99
    gae_lambda: Annotated[float, "λ of generalized advantage estimation", UNIT] = 0.95
    hidden_sizes: Annotated[tuple[int, ...], "sizes of the hidden layers", LAYER] = (64, 64)

    transition_batch_size: Annotated[
        int | None, "RRD, SAC: transitions per gradient step of policy and critics", COUNT
    ] = None
    train_batches: Annotated[int | None, "RRD, SAC: gradient steps per iteration", COUNT] = None
    steps_per_iteration: Annotated[int | None, "RRD, SAC: environment steps per iteration", COUNT] = None
    rrd_batch_size: Annotated[int | None, "RRD: timesteps per gradient step of the reward network", COUNT] = None
    rrd_sample_size: Annotated[int | None, "RRD: timesteps per subsequence", COUNT] = None
    learning_starts: Annotated[
        int | None, "RRD, SAC: environment steps before the first gradient step", Range(0, MOST_TIMESTEPS)
    ] = None
    buffer_size: Annotated[int | None, "RRD, SAC: observations that the replay buffer holds", COUNT] = None


@dataclass(frozen=True, kw_only=True)
class Request(RolloutSizes):
    """A partly specified plan; every field that is left out is derived or chosen."""

    total_timesteps: Annotated[int | None, "budget in environment steps (not vector steps)", BUDGET] = None

    num_agents: Annotated[int, "agents per environment that share the policy: N·T·agents samples", AGENTS] = 1
    world_size: Annotated[int, "data-parallel processes (GPUs); all sizes are those of all processes", RANKS] = 1
    num_envs_per_rank: Annotated[int | None, "environments of each process (alternative to N)", COUNT] = None
    minibatch_size_per_rank: Annotated[
        int | None, "samples of each process per gradient step (alternative to M)", COUNT
    ] = None
    recurrent: Annotated[bool, "recurrent policy: minibatches of whole sequences (default: whole environments)"] = False
    seq_length: Annotated[int | None, "steps per sequence of a recurrent policy; must divide T", COUNT] = None
    learning_rate: Annotated[float | None, "Adam learning rate to rescale (see --explain lr-minibatch)", POSITIVE] = (
        None
    )
    tuned_minibatch_size: Annotated[int | None, "minibatch size that the learning rate was tuned for", COUNT] = None

    obs_shape: Annotated[tuple[int, ...] | None, "shape of one observation, for the memory estimate", COUNT] = None
    obs_dtype: Annotated[str, "dtype of the observations, for example float32 or uint8"] = "float32"
    action_dim: Annotated[int | None, "action dimensions (continuous) or number of actions (discrete)", COUNT] = None
    action_kind: Annotated[ActionKind | None, "type of the action space"] = None
    episode_length: Annotated[int | None, "typical episode length in steps", COUNT] = None
    env_bytes: Annotated[int | None, "memory per environment in bytes", Range(0, MOST_TIMESTEPS)] = None
    library_bytes: Annotated[int | None, "memory of the environment's library in bytes", Range(0, MOST_TIMESTEPS)] = (
        None
    )
    host_envs: Annotated[bool, "environments run on this machine's CPU cores"] = False

    num_shards: Annotated[int | Literal["auto"], "shards, for the memory estimate", Range(1, 1024)] = "auto"
    microbatch_size: Annotated[int | Literal["auto"], "samples per gradient kernel, for the memory estimate", COUNT] = (
        "auto"
    )
    normalize_observations: Annotated[bool, "observations are normalized, for the memory estimate"] = False
    monitor_gradients: Annotated[bool, "gradients are monitored, for the memory estimate"] = False
    target_kl: Annotated[float | None, "PPO: KL that stops an update, for the memory estimate", POSITIVE] = None

    preset: Annotated[RrdPreset | None, "RRD, SAC: recommended sizes; other flags override them"] = None


# Of runs with several agents or processes, or with a recurrent policy.
SHARED_SIZES = (
    "num_agents", "world_size", "num_envs_per_rank", "minibatch_size_per_rank", "recurrent", "seq_length",
)  # fmt: skip
# Settings of a run that change its memory, under the names that they have there.
MEMORY_SETTINGS = ("num_shards", "microbatch_size", "normalize_observations", "monitor_gradients", "target_kl")
SUBSEQUENCE_SIZES = ("rrd_batch_size", "rrd_sample_size")
REPLAY_SIZES = (
    "transition_batch_size", "train_batches", "steps_per_iteration", "learning_starts", "buffer_size",
    *SUBSEQUENCE_SIZES,
)  # fmt: skip
