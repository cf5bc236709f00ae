"""What windows of a tabular run are made of, by sums over (state, steps of the episode, action, next state)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from rollshape.agents.networks import ActorCritic
from rollshape.envs import exact
from rollshape.envs.tabular import Floats, TabularMDP
from rollshape.probes.subject import Checkpoint
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.spec import Spec


@dataclass(frozen=True, eq=False)
class Known:
    """A tabular MDP under the policy and critic of a small network. Layers n are an episode's steps so far; without a
    time limit there is one, from which nothing leads out."""

    checkpoint: Checkpoint

    @property
    def mdp(self) -> TabularMDP:
        assert isinstance(self.checkpoint.env, TabularMDP)
        return self.checkpoint.env

    @property
    def model(self) -> ActorCritic:
        model: ActorCritic = self.checkpoint.policy.network
        return model

    @cached_property
    def policy(self) -> Floats:
        return np.asarray(jax.nn.softmax(self.model(jnp.eye(self.mdp.num_states))[0]), np.float64)

    @cached_property
    def critic(self) -> Floats:
        return np.asarray(self.model(jnp.eye(self.mdp.num_states))[1], np.float64)

    @cached_property
    def scores(self) -> Floats:
        """∇log π by all parameters, [S, A, P]."""
        states, actions = self.policy.shape

        def score(state: jax.Array, action: jax.Array) -> jax.Array:
            seen = jax.nn.one_hot(state, states)

            def log_prob(model: ActorCritic) -> jax.Array:
                return self.checkpoint.policy.distribution.log_prob(model(seen[None])[0], action[None])[0]

            return ravel_pytree(jax.grad(log_prob)(self.model))[0]

        pairs = jax.vmap(jax.vmap(score, (None, 0)), (0, None))(jnp.arange(states), jnp.arange(actions))
        return np.asarray(pairs, np.float64)

    @property
    def layers(self) -> int:
        return self.mdp.max_steps or 1

    def stepped(self, now: Floats) -> Floats:
        """Where the steps of an episode and its state [n, S] are one step later; ended episodes have begun again."""
        alive = ~self.mdp.terminal
        moved = now @ exact.state_transitions(self.mdp, self.policy)
        if self.mdp.max_steps is None:
            ended = moved[:, ~alive].sum()
            return moved * alive + ended * self.mdp.start
        later = np.zeros_like(now)
        later[1:] = moved[:-1] * alive
        later[0] = self.mdp.start * (now.sum() - later.sum())
        return later

    @cached_property
    def fresh(self) -> Floats:
        now = np.zeros((self.layers, self.mdp.num_states))
        now[0] = self.mdp.start
        return now

    @cached_property
    def stationary(self) -> Floats:
        if self.mdp.max_steps is None:
            return exact.state_distribution(self.mdp, self.policy)[None]
        visits, now = np.zeros_like(self.fresh), self.mdp.start.copy()
        going = exact.state_transitions(self.mdp, self.policy) * ~self.mdp.terminal
        for n in range(self.layers):
            visits[n], now = now, now @ going
        return visits / visits.sum()

    @cached_property
    def moments(self) -> list[tuple[Floats, Floats]]:
        """(E Â, E Â²) given (n, s, a), [n, S, A], for 1, 2, … T steps left in the window."""
        spec, mdp = self.checkpoint.spec, self.mdp
        alive = (~mdp.terminal).astype(float)
        bare = spec.algo == "reinforce"  # here: without a baseline
        critic = self.critic * (not bare)
        error = mdp.rewards + spec.gamma * alive * critic - critic[:, None, None]
        goes_on = np.ones((self.layers, 1)) * alive  # whether the trace goes on behind (n, s′)
        if mdp.max_steps is not None:
            goes_on[-1] = 0.0
        decay, found = spec.gamma * (1.0 if bare else spec.gae_lambda), []
        first = second = np.zeros((self.layers, *self.policy.shape))
        for _ in range(self.checkpoint.plan.num_steps):
            means, squares = (
                np.roll(np.einsum("nsa,sa->ns", x, self.policy), -1 if self.layers > 1 else 0, 0) * goes_on
                for x in (first, second)
            )
            first = np.einsum("sat,nsat->nsa", mdp.transitions, error + decay * means[:, None, None])
            second = np.einsum(
                "sat,nsat->nsa",
                mdp.transitions,
                error**2 + 2 * error * decay * means[:, None, None] + decay**2 * squares[:, None, None],
            )
            found.append((first, second))
        return found

    def window_gradient(self, now: Floats) -> Floats:
        """E of the mean gradient of a window that begins with the distribution now [n, S]."""
        steps, total = len(self.moments), np.zeros(self.scores.shape[-1])
        for i in range(steps):
            expected = self.moments[steps - 1 - i][0]
            total += np.einsum("ns,sa,nsa,sap->p", now, self.policy, expected, self.scores)
            now = self.stepped(now)
        return total / steps


def known(mdp: TabularMDP, **changes: Any) -> Known:
    """A network whose policy is far from uniform, and whose critic is wrong."""
    sizes = {"num_envs": 4, "num_steps": 3, "hidden_sizes": (4,), "gamma": 0.9, "total_timesteps": 2**20}
    spec = Spec(**{**sizes, **changes})
    driver = CompiledDriver(spec, spec.plan(), mdp)
    state = driver.start()
    model = eqx.tree_at(lambda m: m.towers.actor_head.weight, state.learner.network, replace_fn=lambda w: 100 * w)
    return Known(Checkpoint(driver, state._replace(learner=state.learner._replace(network=model))))
