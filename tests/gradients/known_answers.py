"""Streams of step gradients whose every statistic is known: AR(1) vectors, and tabular MDPs by sums over the chain."""

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from rollshape.agents.returns import gae
from rollshape.envs import exact
from rollshape.envs.tabular import Floats, TabularMDP, delay_chain, frozen_lake
from rollshape.gradients.gram import Trace

GAMMA = 0.9


@dataclass(frozen=True)
class AR1:
    """g_t = μ + x_t, x_t = ρ·x_{t−1} + √(1−ρ²)·noise, components of falling scale; stationary from the start."""

    rho: float = 0.8
    size: int = 6
    signal: float = 0.5
    skewed: bool = False

    @property
    def mean(self) -> Floats:
        return np.full(self.size, self.signal / np.sqrt(self.size))

    @property
    def scale(self) -> Floats:
        return 1 / np.sqrt(1 + np.arange(self.size))

    @property
    def step_variance(self) -> float:
        return float((self.scale**2).sum())

    def correlation_time(self, steps: int) -> float:
        """τ_T in closed form; (1+ρ)/(1−ρ) as T grows."""
        r = self.rho
        return float((1 + r) / (1 - r) - 2 * r * (1 - r**steps) / (steps * (1 - r) ** 2))

    def draw(self, rng: np.random.Generator, envs: int, steps: int) -> Floats:
        """Gradients [N, T, P]."""
        burn = 40 if self.skewed else 0
        noise = rng.exponential(size=(envs, burn + steps, self.size)) - 1 if self.skewed else rng.normal(
            size=(envs, steps, self.size)
        )  # fmt: skip
        x = np.empty_like(noise)
        x[:, 0] = noise[:, 0]
        for t in range(1, noise.shape[1]):
            x[:, t] = self.rho * x[:, t - 1] + np.sqrt(1 - self.rho**2) * noise[:, t]
        return self.mean + self.scale * x[:, burn:]


@dataclass(frozen=True)
class BiasedWindows:
    """Windows of T steps: AR(1) steps plus a bias, relative to the same steps without it. See MeasuredWindows."""

    num_steps: int
    window_norms: Floats
    row_gram: Floats
    bias_gram: Floats

    @property
    def window_bias_gram(self) -> Floats:
        return self.bias_gram


@dataclass(frozen=True)
class SharedBias:
    """Windows of AR(1) steps whose bias is mostly that of all T: as GAE's is by λ < 1.

    Environment e adds c_e ~ N(common, spread²) to all its steps, and a window of T adds edge/T to the first component.
    """

    stream: AR1 = AR1()
    steps: int = 32
    common: float = 1.0
    spread: float = 1.0
    edge: float = 2.0

    def bias(self, num_steps: int) -> Floats:
        size = self.stream.size
        return np.full(size, self.common / np.sqrt(size)) + self.edge / num_steps * np.eye(size)[0]

    def error(self, num_envs: int, num_steps: int, updates: float = 1.0) -> float:
        """Exact bias² + variance/h of a shape."""
        stream, bias = self.stream, self.bias(num_steps)
        window = stream.step_variance * stream.correlation_time(num_steps) / num_steps
        return float(bias @ bias) + (window + self.spread**2 * stream.size) / (num_envs * updates)

    def draw(self, rng: np.random.Generator, envs: int, lengths: tuple[int, ...]) -> list[BiasedWindows]:
        g = self.stream.draw(rng, envs, self.steps)
        added = self.spread * rng.normal(size=(envs, self.stream.size))
        measured = []
        for length in lengths:
            bias = self.bias(length) + added
            means = g.reshape(envs, -1, length, self.stream.size).mean(2) + bias[:, None]
            rows = means.mean(1)
            measured.append(BiasedWindows(length, (means**2).sum(-1).mean(1), rows @ rows.T, bias @ bias.T))
        return measured


@dataclass(frozen=True, eq=False)
class Chain:
    """A tabular MDP under a softmax policy, started from its stationary distribution; ended episodes start again."""

    mdp: TabularMDP
    policy: Floats
    critic: Floats  # some wrong V[s]

    @cached_property
    def weights(self) -> Floats:
        return exact.state_distribution(self.mdp, self.policy)

    @cached_property
    def scores(self) -> Floats:
        """∇log π by the logits, [S, A, S·A]."""
        states, actions = self.policy.shape
        scores = np.zeros((states, actions, states, actions))
        for s in range(states):
            scores[s, :, s] = np.eye(actions) - self.policy[s]
        return scores.reshape(states, actions, -1)

    @cached_property
    def advantage(self) -> Floats:
        return exact.advantages(self.mdp, self.policy, GAMMA)

    @cached_property
    def gradient(self) -> Floats:
        """The on-policy gradient, [S·A]."""
        return exact.policy_gradient(self.weights, self.policy, self.scores, self.advantage)

    @cached_property
    def restarting(self) -> Floats:
        """P[s, a, s′] with a fresh start in place of every terminal state."""
        moves = self.mdp.transitions * ~self.mdp.terminal
        return moves + (self.mdp.transitions @ self.mdp.terminal.astype(float))[..., None] * self.mdp.start

    def lag_covariance(self, steps: int) -> Floats:
        """tr Cov(g_t, g_{t+k}) of g = A·∇log π for k < T, by powers of the transition matrix."""
        g = self.advantage[..., None] * self.scores
        ahead, covariance = g, []
        for _ in range(steps):
            covariance.append(np.einsum("s,sa,sap,sap->", self.weights, self.policy, g, ahead))
            by_state = np.einsum("sa,sap->sp", self.policy, ahead)
            ahead = np.einsum("sat,tp->sap", self.restarting, by_state)
        return np.array(covariance) - self.gradient @ self.gradient

    def estimated_advantage(self, remaining: int, lam: float) -> Floats:
        """E[GAE | s, a] with so many steps left in the window: E δ + γλ·E[next, one step less]."""
        alive = ~self.mdp.terminal
        target = self.mdp.rewards + GAMMA * (alive * self.critic)
        error = np.einsum("sat,sat->sa", self.mdp.transitions, target) - self.critic[:, None]
        expected = error
        for _ in range(remaining - 1):
            following = np.einsum("ta,ta->t", self.policy, expected) * alive
            expected = error + GAMMA * lam * self.mdp.transitions @ following
        return expected

    def window_gradient(self, steps: int, lam: float) -> Floats:
        """E of a window's mean gradient with GAE cut at its edge."""
        mean = np.mean([self.estimated_advantage(left, lam) for left in range(1, steps + 1)], axis=0)
        return exact.policy_gradient(self.weights, self.policy, self.scores, mean)

    def draw(self, rng: np.random.Generator, envs: int, steps: int) -> "Walk":
        """N × T steps from the stationary distribution."""
        cumulative, states = self.mdp.transitions.cumsum(-1), self.mdp.num_states
        s = rng.choice(states, size=envs, p=self.weights)
        log = np.empty((4, envs, steps))
        for t in range(steps):
            a = np.minimum((rng.random((envs, 1)) >= self.policy.cumsum(-1)[s]).sum(1), self.policy.shape[1] - 1)
            led = np.minimum((rng.random((envs, 1)) >= cumulative[s, a]).sum(1), states - 1)
            log[:, :, t] = s, a, led, self.mdp.rewards[s, a, led]
            s = np.where(self.mdp.terminal[led], rng.choice(states, size=envs, p=self.mdp.start), led)
        return Walk(self, *log[:3].astype(int), log[3])


@dataclass(frozen=True, eq=False)
class Walk:
    """States, actions, where they led, and rewards, [N, T]."""

    chain: Chain
    states: np.ndarray
    actions: np.ndarray
    led: np.ndarray
    rewards: np.ndarray

    def score_traces(self) -> tuple[Trace, ...]:
        """∇log π of a table of logits: a layer without bias whose input is the state, one-hot."""
        policy = self.chain.policy
        errors = np.eye(policy.shape[1])[self.actions] - policy[self.states]
        inputs = np.eye(policy.shape[0])[self.states]
        return (Trace(jnp.asarray(inputs, jnp.float32), jnp.asarray(errors, jnp.float32), bias=False),)

    def true_advantages(self) -> Floats:
        return self.chain.advantage[self.states, self.actions]

    def gae(self, steps: int, lam: float) -> Floats:
        """GAE of windows of T steps with the wrong critic, each cut at its own edge, [N, T₀]."""
        critic, ended = self.chain.critic, self.chain.mdp.terminal[self.led]
        parts = (self.rewards, critic[self.states], critic[self.led], ended, ended)
        cut = [jnp.asarray(x.reshape(-1, steps)) for x in parts]
        return np.asarray(_gae(*cut, lam)).reshape(self.rewards.shape)


@partial(jax.jit, static_argnums=5)
def _gae(rewards, values, following, terminated, ended, lam):  # type: ignore[no-untyped-def]
    return jax.vmap(lambda *x: gae(*x, GAMMA, lam))(rewards, values, following, terminated, ended)


def _chain(mdp: TabularMDP) -> Chain:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=mdp.transitions.shape[:2])
    policy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    values = exact.values(mdp, policy, GAMMA)
    return Chain(mdp, policy, np.where(mdp.terminal, 0, values + values.std() * rng.normal(size=len(values))))


@cache
def lake() -> Chain:
    """FrozenLake without a time limit: with one, the chain would need the step count in its state."""
    return _chain(replace(frozen_lake("4x4"), max_steps=None))


@cache
def delayed() -> Chain:
    return _chain(delay_chain(delay=2, density=0.5, mixing=4, period=4))
