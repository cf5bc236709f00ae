"""Rules about runs with several processes or agents, and with recurrent policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollshape.geometry.rules.base import RuleResult, rule

if TYPE_CHECKING:
    from rollshape.geometry.plan import Plan
    from rollshape.geometry.request import Request


@rule(
    "world-size", "RSL-RL 5.5.1, skrl 2.1.1, rl_games 1.6.5, Brax 0.14.2 and Stoix: gradients are averaged over ranks"
)
def world_size(plan: Plan, _: Request) -> RuleResult | None:
    """With several processes, each has an equal part of the environments and of every minibatch.

    All sizes of a plan are those of all `world_size` processes; names that end in `_per_rank` are those of one. The
    processes average their gradients, so one gradient step uses minibatch_size samples, minibatch_size_per_rank of each
    process. Libraries differ in what their keys mean: RSL-RL, skrl, rl_games, Isaac Lab's `--num_envs`, CleanRL's
    multi-GPU script and PufferLib count per process, so more GPUs mean larger batches and fewer updates; Brax and Stoix
    divide global sizes.
    """
    if plan.world_size == 1:
        return None
    sizes = plan.per_rank
    return RuleResult(
        "info",
        f"Each of {plan.world_size:,} processes has {sizes['num_envs_per_rank']:,} of {plan.num_envs:,} environments "
        f"and {sizes['minibatch_size_per_rank']:,} of the {plan.minibatch_size:,} samples of each gradient step.",
        "Libraries that count per process (RSL-RL, skrl, rl_games, Isaac Lab) take the sizes that end in _per_rank.",
        {"world_size": plan.world_size, **sizes},
    )


@rule("num-agents", "rl_games 1.6.5: batch_size = horizon_length · num_actors · num_agents")
def num_agents(plan: Plan, _: Request) -> RuleResult | None:
    """If the agents of an environment share a policy, each is a sample: the rollout has N·T·num_agents of them.

    A timestep is then a step of one agent, also in total_timesteps, as rl_games and PufferLib count. Samples of the
    agents of one environment are correlated.
    """
    if plan.num_agents == 1:
        return None
    steps = plan.rollout_size // plan.num_agents
    return RuleResult(
        "info",
        f"{plan.num_agents:,} agents per environment: {steps:,} environment steps give {plan.rollout_size:,} samples.",
        "total_timesteps counts the steps of all agents.",
        {"num_agents": plan.num_agents, "environment_steps": steps},
    )


@rule("recurrent", "rl_games, skrl, RSL-RL, Stoix, CleanRL and Baselines: minibatches of whole sequences")
def recurrent(plan: Plan, _: Request) -> RuleResult | None:
    """A recurrent policy is trained on sequences, so minibatches consist of whole ones.

    seq_length must divide num_steps, and a minibatch contains a multiple of seq_length samples (on each process).
    Without a seq_length, a sequence is an environment's part of the rollout, as in RSL-RL, CleanRL, PureJaxRL and
    Baselines. rl_games and skrl crash if a sequence is cut; RSL-RL leaves out the environments that fill no minibatch.
    Steps of a sequence are correlated: the number of sequences in a minibatch is its effective number of samples.
    """
    length = plan.seq_length
    if length is None:
        return None
    count, total = plan.minibatch_size // length, plan.rollout_size // length
    return RuleResult(
        "info",
        f"A minibatch consists of {count:,} of the {total:,} sequences of {length:,} steps.",
        "Use a shorter seq_length or more environments for more independent sequences.",
        {"seq_length": length, "sequences": total, "sequences_per_minibatch": count},
    )
