"""Train a case with a script in the style of CleanRL's ppo.py and ppo_continuous_action.py: one file, one loop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.distributions import Categorical, Normal

from planted_runs.cases import MEASURE_EVERY, Case
from planted_runs.tasks import TASKS
from rollshape.integrations.cleanrl import record


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    """Separate networks for actor and critic, and a state-independent standard deviation for real-valued actions."""

    def __init__(self, num_features: int, num_actions: int, is_discrete: bool) -> None:
        super().__init__()
        self.critic = self._network(num_features, 1, 1.0)
        self.actor = self._network(num_features, num_actions, 0.01)
        self.actor_logstd = None if is_discrete else nn.Parameter(torch.zeros(1, num_actions))

    @staticmethod
    def _network(inputs: int, outputs: int, std: float) -> nn.Sequential:
        return nn.Sequential(
            layer_init(nn.Linear(inputs, 64)), nn.Tanh(), layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, outputs), std),
        )  # fmt: skip

    def get_value(self, x: torch.Tensor) -> torch.Tensor:
        return self.critic(x)

    def get_action_and_value(
        self, x: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        if self.actor_logstd is None:
            chosen: Any = Categorical(logits=self.actor(x))
            action = chosen.sample() if action is None else action
            return action, chosen.log_prob(action), chosen.entropy(), self.critic(x)
        mean = self.actor(x)
        chosen = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        action = chosen.sample() if action is None else action
        return action, chosen.log_prob(action).sum(1), chosen.entropy().sum(1), self.critic(x)


def train(case: Case, seed: int, out: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    envs = TASKS[case.task](case.num_envs, seed, case.options)
    envs.single_action_space = Discrete(2) if envs.is_discrete else Box(-2.0, 2.0, (1,))
    envs.spec = gym.spec(envs.name)
    args = SimpleNamespace(
        env_id=envs.name if case.reward_scale == 1.0 else None,
        seed=seed,
        num_envs=case.num_envs,
        num_steps=case.num_steps,
        num_minibatches=case.num_minibatches,
        update_epochs=case.num_epochs,
        total_timesteps=case.num_updates * case.num_envs * case.num_steps,
        learning_rate=case.learning_rate,
        anneal_lr=case.is_annealed,
        gamma=case.gamma,
        gae_lambda=0.95,
        clip_coef=case.clip_range,
        ent_coef=case.entropy_coef,
        vf_coef=case.value_coef,
        max_grad_norm=0.5,
    )
    agent = Agent(envs.num_features, envs.num_actions, envs.is_discrete)
    optimizer = torch.optim.Adam(agent.parameters(), lr=case.learning_rate, eps=1e-5)
    shape = (case.num_steps, case.num_envs)
    obs = torch.zeros((*shape, envs.num_features))
    actions = torch.zeros(shape if envs.is_discrete else (*shape, envs.num_actions))
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))
    next_obs, next_done = torch.as_tensor(envs.observations()), torch.zeros(case.num_envs)
    for iteration in range(1, case.num_updates + 1):
        if args.anneal_lr:
            frac = 1.0 - (iteration - 1.0) / case.num_updates
            optimizer.param_groups[0]["lr"] = frac * args.learning_rate
        for step in range(case.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprobs[step], _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            outcome = envs.step(action.numpy())
            rewards[step] = torch.as_tensor(outcome.rewards)
            next_obs = torch.as_tensor(outcome.observations)
            next_done = torch.as_tensor(outcome.terminated | outcome.truncated).float()
        with torch.no_grad():
            advantages = gae(rewards, values, dones, next_done, agent.get_value(next_obs).flatten(), case.gamma)
        returns = advantages + values
        record(out, locals(), every=MEASURE_EVERY, quiet=True)
        update(agent, optimizer, args, obs, actions, logprobs, advantages, returns)


def gae(
    rewards: torch.Tensor, values: torch.Tensor, dones: torch.Tensor, next_done: torch.Tensor,
    next_value: torch.Tensor, gamma: float,
) -> torch.Tensor:  # fmt: skip
    """Return advantages; as in CleanRL, `dones[t]` says that step t begins an episode."""
    advantages, last = torch.zeros_like(rewards), torch.zeros_like(next_value)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - (next_done if t == len(rewards) - 1 else dones[t + 1])
        following = next_value if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * following * alive - values[t]
        advantages[t] = last = delta + gamma * 0.95 * alive * last
    return advantages


def update(
    agent: Agent, optimizer: torch.optim.Optimizer, args: SimpleNamespace, obs: torch.Tensor, actions: torch.Tensor,
    logprobs: torch.Tensor, advantages: torch.Tensor, returns: torch.Tensor,
) -> None:  # fmt: skip
    """Train on a rollout: epochs, shuffled minibatches, clipped ratio, one optimizer step each."""
    flat = (part.reshape(-1, *part.shape[2:]) for part in (obs, actions, logprobs, advantages, returns))
    b_obs, b_actions, b_logprobs, b_advantages, b_returns = flat
    minibatch_size = len(b_obs) // args.num_minibatches
    for _ in range(args.update_epochs):
        b_inds = torch.randperm(len(b_obs))
        for start in range(0, len(b_obs), minibatch_size):
            mb_inds = b_inds[start : start + minibatch_size]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
            ratio = (newlogprob - b_logprobs[mb_inds]).exp()
            weights = b_advantages[mb_inds]
            weights = (weights - weights.mean()) / (weights.std() + 1e-8)
            pg_loss = torch.max(-weights * ratio, -weights * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
            v_loss = 0.5 * ((newvalue.flatten() - b_returns[mb_inds]) ** 2).mean()
            loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()
