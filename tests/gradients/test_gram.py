"""Inner products from traces against vmap(grad), for every kind of network and action."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rollshape.agents.distributions import distribution_for, sample
from rollshape.agents.networks import ActorCritic
from rollshape.envs.spaces import Action, Continuous, Discrete, MultiDiscrete, Observation
from rollshape.gradients import autodiff, gram
from rollshape.gradients.traces import policy_traces, value_traces

ENVS, STEPS = 3, 4
MINIBATCHES = np.array([[0, 5, 7], [11, 2, 1]])
CASES: dict[str, tuple[Observation, Action, str]] = {
    "dense, one choice": (Observation((5,)), Discrete(3), "policy"),
    "dense, several choices": (Observation((5,)), MultiDiscrete((2, 3)), "policy"),
    "dense, a vector": (Observation((5,)), Continuous(2), "policy"),
    "dense, value": (Observation((5,)), Continuous(2), "value"),
    "picture": (Observation((10, 10, 3)), Discrete(3), "policy"),
    "picture of bytes, a vector": (Observation((10, 10, 3), "uint8"), Continuous(2), "policy"),
    "picture, value": (Observation((10, 10, 3), "uint8"), Discrete(3), "value"),
    "large picture": (Observation((36, 40, 1), "uint8"), Discrete(2), "policy"),
}


def random_model(observation: Observation, action: Action, hidden: tuple[int, ...] = (8, 7)) -> ActorCritic:
    """Drawn by NumPy: no bias is zero, no head tiny, and nothing waits for an orthogonal initialisation to compile."""
    shapes = jax.eval_shape(lambda key: ActorCritic(key, observation, action, hidden), jax.random.key(0))
    chance = np.random.default_rng(0)

    def draw(x: Any) -> jax.Array:
        return jnp.asarray(chance.normal(size=x.shape) / np.sqrt(max(1, np.prod(x.shape[:-1]))), jnp.float32)

    return jax.tree.map(draw, shapes)


def measure(observation: Observation, action: Action, kind: str) -> dict[str, Any]:
    """Found by traces and wanted by vmap(grad), name → pair."""
    policy = distribution_for(action)

    def loss(model: ActorCritic, step: Any) -> jax.Array:
        observation, action, weight = step
        outputs, value = model(observation)
        return weight * (policy.log_prob(outputs, action) if kind == "policy" else value)

    chance = np.random.default_rng(1)
    shape = (ENVS, STEPS, *observation.shape)
    pixels = observation.dtype == "uint8"
    seen = chance.integers(0, 256, shape).astype(np.uint8) if pixels else chance.normal(size=shape).astype(np.float32)
    weights = chance.normal(size=(ENVS, STEPS)).astype(np.float32)

    @jax.jit
    def compute(model: ActorCritic, seen: jax.Array, weights: jax.Array) -> dict[str, Any]:
        actions = sample(policy, jax.random.key(0), jax.vmap(jax.vmap(model))(seen)[0])
        scores = policy_traces(model, policy, seen, actions) if kind == "policy" else value_traces(model, seen)
        traces = gram.scale_traces(scores, weights)
        steps = jax.tree.map(lambda x: x.reshape(ENVS * STEPS, *x.shape[2:]), (seen, actions, weights))
        flat = autodiff.step_gradients(loss, model, steps)
        g = flat.reshape(ENVS, STEPS, -1)
        w, mean = g.mean(1), g.mean((0, 1))
        steps_of_all, rows = gram.reshape_traces(traces, 2, (ENVS * STEPS,)), gram.rows(traces)
        direction = gram.mean_gradient(traces)
        minibatches = gram.minibatch_rows(traces, jnp.asarray(MINIBATCHES))
        return {
            "all pairs": (gram.gram(steps_of_all, steps_of_all), flat @ flat.T),
            "blocks": (gram.gram_blocks(traces), jnp.einsum("ntp,nsp->nts", g, g)),
            "row gram": (gram.row_gram(traces), w @ w.T),
            "rows": (rows @ rows.T, w @ w.T),
            "window norms": (gram.window_norms(traces), (w**2).sum(-1)),
            "norms of pairs": (
                gram.window_norms(gram.reshape_traces(traces, 2, (ENVS * STEPS // 2, 2))),
                (flat.reshape(-1, 2, flat.shape[1]).mean(1) ** 2).sum(-1),
            ),
            "mean": (gram.squared_norm(direction), (mean**2).sum()),
            "dots": (gram.dots(traces, direction), g @ mean),
            "minibatches": (minibatches @ rows.T, flat[MINIBATCHES].mean(1) @ w.T),
        } | (by_autodiff(loss, model, (seen, actions, weights), g) if observation.dtype == "float32" else {})

    return compute(random_model(observation, action), seen, weights)


def by_autodiff(loss: autodiff.Loss, model: ActorCritic, steps: Any, g: jax.Array) -> dict[str, Any]:
    """What any architecture can have."""
    return {
        "autodiff blocks": (autodiff.gram_blocks(loss, model, steps), jnp.einsum("ntp,nsp->nts", g, g)),
        "autodiff rows": (autodiff.rows(loss, model, steps), g.mean(1)),
    }


def close(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    assert float(jnp.abs(found - wanted).max()) <= 1e-5 * float(jnp.abs(wanted).max())


@pytest.mark.parametrize("name", CASES)
def test_traces_give_what_per_step_gradients_give(name: str) -> None:
    for what, (found, wanted) in measure(*CASES[name]).items():
        assert float(jnp.abs(wanted).max()) > 0, what
        close(found, wanted)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("positions", "inputs", "outputs"), [(2, 20, 30), (9, 2, 3)])
def test_both_ways_through_a_shared_layer(
    positions: int, inputs: int, outputs: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few positions of a wide layer take the P² identity, many build the gradient; slices change nothing."""
    chance = np.random.default_rng(positions)
    a = chance.normal(size=(ENVS, STEPS, positions, inputs)).astype(np.float32)
    d = chance.normal(size=(ENVS, STEPS, positions, outputs)).astype(np.float32)
    ones = np.concatenate([a, np.ones((*a.shape[:3], int(bias)), np.float32)], -1)
    g = np.einsum("ntpi,ntpo->ntio", ones, d).reshape(ENVS, STEPS, -1)
    traces = [gram.Trace(a, d, bias=bias, shared=True)]  # type: ignore[arg-type]
    close(gram.gram_blocks(traces), np.einsum("ntp,nsp->nts", g, g))
    close(gram.window_norms(traces), (g.mean(1) ** 2).sum(-1))
    monkeypatch.setattr(gram, "CHUNK", 7 * ENVS * (inputs + 1))
    close(gram.row_gram(traces, traces), g.mean(1) @ g.mean(1).T)


def test_rows_are_laid_out_like_the_parameters() -> None:
    """Layer by layer, weight then bias: the order of a dense actor's own leaves."""
    model = random_model(Observation((5,)), Discrete(3), hidden=(8,))
    policy, seen, actions = distribution_for(Discrete(3)), jnp.ones((1, 2, 5)), jnp.array([[0, 2]])

    def mean_log_prob(model: ActorCritic) -> jax.Array:
        return policy.log_prob(jax.vmap(model)(seen[0])[0], actions[0]).mean()

    wanted = ravel_pytree(jax.grad(mean_log_prob)(model).actor)[0]
    close(gram.rows(policy_traces(model, policy, seen, actions))[0], wanted)
