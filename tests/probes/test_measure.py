"""What is measured of a run's checkpoint, against exact answers of its chain and against fresh batches."""

import copy
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_answers import Chain
from test_scores import CustomNetwork

from rollshape.envs.tabular import TabularMDP
from rollshape.gradients import gram
from rollshape.gradients.bias import bias
from rollshape.gradients.intervals import Estimate, estimate_squared_norm
from rollshape.gradients.surface import surface
from rollshape.gradients.traces import policy_traces, value_traces
from rollshape.gradients.variance import variance
from rollshape.gradients.windows import products
from rollshape.probes import measure
from rollshape.probes.batches import collect_batches
from rollshape.probes.collect import Source, Stream, estimate_advantages, open_source
from rollshape.probes.quantities.critic import measure_targets
from rollshape.probes.quantities.reset_phase import measure_reset_phase
from rollshape.probes.quantities.step_noises import measure_step_noises
from rollshape.probes.subject import Checkpoint
from rollshape.training.streams import stream_key

ENVS, STEPS, LENGTHS = 512, 32, (1, 4, 16, 32)
KEY = stream_key(0, "probe")


@pytest.fixture(scope="module")
def drawn(checkpoint: Checkpoint) -> Source:
    return open_source(checkpoint, ENVS, "stationary")


@pytest.fixture(scope="module")
def stream(drawn: Source) -> Stream:
    return drawn.draw(STEPS, 44, KEY)  # .9⁴⁴ = .01


@pytest.fixture(scope="module")
def exact_chain(checkpoint: Checkpoint, drawn: Source) -> Chain:
    mdp = checkpoint.env
    assert isinstance(mdp, TabularMDP)
    outputs, values = drawn.policy.network(jnp.eye(mdp.num_states))
    policy = np.asarray(jax.nn.softmax(outputs.astype(jnp.float32)), np.float64)
    return Chain(mdp, policy / policy.sum(1, keepdims=True), np.asarray(values, np.float64))


def through_the_network(drawn: Source, chain: Chain, advantage: np.ndarray) -> np.ndarray:
    """Σ d(s) π(a|s) A(s, a) ∇log π by the network's parameters, [P]."""
    states, actions = chain.policy.shape
    each_state, each_action = np.repeat(np.arange(states), actions), np.tile(np.arange(actions), states)
    traces = policy_traces(
        drawn.policy.network, drawn.policy.distribution, jnp.eye(states)[each_state], jnp.asarray(each_action)
    )
    weights = (chain.weights[:, None] * chain.policy * advantage).reshape(-1) * states * actions
    one = gram.reshape_traces(gram.scale_traces(traces, jnp.asarray(weights, jnp.float32)), 1, (1, states * actions))
    return np.asarray(gram.rows(one)[0], np.float64)


def near(estimate: Estimate, truth: float) -> bool:
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= truth <= estimate.high + half


def window_gradient(drawn: Source, chain: Chain, steps: int, lam: float) -> np.ndarray:
    left = range(1, steps + 1)
    return through_the_network(drawn, chain, np.mean([chain.estimated_advantage(k, lam) for k in left], axis=0))


def test_the_reference_is_the_true_policy_gradient(
    checkpoint: Checkpoint, drawn: Source, stream: Stream, exact_chain: Chain
) -> None:
    view = measure.policy_view(drawn.policy)
    rows = measure.measure_rows(view, stream, estimate_advantages(checkpoint.estimator, stream, lam=1.0)[0])
    truth = through_the_network(drawn, exact_chain, exact_chain.advantage)
    error = rows.std(0) / np.sqrt(len(rows))
    assert (np.abs(rows.mean(0) - truth) <= 5 * error + 1e-6).all()
    assert near(estimate_squared_norm(products(rows)), float(truth @ truth))


def test_three_biases_of_a_run_against_the_exact_ones(
    checkpoint: Checkpoint, drawn: Source, stream: Stream, exact_chain: Chain
) -> None:
    view, lam = measure.policy_view(drawn.policy), checkpoint.spec.gae_lambda
    [own] = measure.measure_windows(view, stream, measure.policy_weights(checkpoint.estimator, stream, [4]))
    here = window_gradient(drawn, exact_chain, 4, lam)
    long, one = (through_the_network(drawn, exact_chain, exact_chain.estimated_advantage(60, x)) for x in (lam, 1.0))
    rng = np.random.default_rng(0)
    for found, exact in (
        (own.window_bias_gram, here - long),
        (own.references.estimator_gram, long - one),
        (own.bias_gram, here - one),
    ):
        assert near(bias(found, own.references.gram, rng).squared, float(exact @ exact))


def test_chunks_do_not_change_what_is_measured(
    checkpoint: Checkpoint, drawn: Source, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = measure.policy_view(drawn.policy)
    [weights] = measure.policy_weights(checkpoint.estimator, stream, [4])
    monkeypatch.setattr(measure, "CHUNK_BYTES", 1 << 28)
    [whole] = measure.measure_windows(view, stream, [weights])
    assert len(measure.chunks(view, stream)) == 1
    monkeypatch.setattr(measure, "CHUNK_BYTES", 4 * STEPS * 2 * view.step_floats(stream) * 130)
    assert len(measure.chunks(view, stream)) == 4
    [parts] = measure.measure_windows(view, stream, [weights])
    for name in ("window_norms", "row_gram", "bias_gram", "window_bias_gram"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-4, atol=1e-6)


def test_several_windows_of_an_environment_are_one_variance(
    checkpoint: Checkpoint, drawn: Source, stream: Stream
) -> None:
    """The split into Terms 1 and 2 has the surface's total, and the lags of its windows."""
    view = measure.policy_view(drawn.policy)
    [weights] = measure.policy_weights(checkpoint.estimator, stream, [4])
    [windows] = measure.measure_windows(view, stream, [weights])
    lags = measure.measure_lags(view, stream, weights)
    found = variance(lags, windows.row_gram, np.random.default_rng(0), num_envs=8)
    point = surface(32, [windows], np.random.default_rng(0))[0]
    assert found.total.value == pytest.approx(point.variance.value, rel=1e-4)
    assert found.total.value == pytest.approx(found.individual.value + found.covariance.value, rel=1e-6)
    np.testing.assert_allclose(lags[:, 0], measure.measure_step_norms(view, stream, weights), rtol=1e-4)
    assert found.effective_sample_size.value == pytest.approx(32 / found.correlation_time.value, rel=1e-6)


@pytest.mark.slow
def test_one_rollout_predicts_what_fresh_batches_show(checkpoint: Checkpoint, drawn: Source, stream: Stream) -> None:
    view, count = measure.policy_view(drawn.policy), 64
    windows = measure.measure_windows(view, stream, measure.policy_weights(checkpoint.estimator, stream, LENGTHS))
    points = surface(32, windows, np.random.default_rng(0))
    assert [(p.num_envs, p.num_steps) for p in points] == [(32, 1), (8, 4), (2, 16), (1, 32)]
    for i, point in enumerate(points):
        batches = collect_batches(
            drawn, checkpoint.estimator, view, point.num_envs, point.num_steps, count, jax.random.fold_in(KEY, i + 1)
        )
        spread = ((batches.gradients - batches.gradients.mean(0)) ** 2).sum(1) * count / (count - 1)
        slack = 3 * spread.std() / np.sqrt(count)
        assert point.variance.low - slack <= spread.mean() <= point.variance.high + slack


def test_targets_of_the_critic(checkpoint: Checkpoint, drawn: Source, stream: Stream, exact_chain: Chain) -> None:
    """E[R_T − R_reference] = E over states of E Â_T − E Â at λ = 1, for R = Â + V; and the critic's gradient."""
    view, lam = measure.critic_view(drawn.policy), checkpoint.spec.gae_lambda
    windows = measure.measure_windows(view, stream, measure.critic_weights(checkpoint.estimator, stream, (4, 32)))
    points = measure_targets(
        checkpoint.estimator, stream, surface(32, windows, np.random.default_rng(0)), np.random.default_rng(0)
    )

    def expected(remaining: int, lam: float) -> np.ndarray:
        return (exact_chain.policy * exact_chain.estimated_advantage(remaining, lam)).sum(1)

    for point in points:
        here = np.mean([expected(left, lam) for left in range(1, point.num_steps + 1)], axis=0)
        off = here - expected(60, 1.0)
        assert near(point.bias, float(exact_chain.weights @ off))
        states = jnp.eye(len(off))
        factors = -2 * exact_chain.weights * off * len(off)
        traces = gram.scale_traces(value_traces(drawn.policy.network, states), jnp.asarray(factors, jnp.float32))
        exact = np.asarray(gram.rows(gram.reshape_traces(traces, 1, (1, len(off))))[0], np.float64)
        assert near(point.gradient.bias2, float(exact @ exact))
    assert points[0].variance.value < points[1].variance.value


def test_a_window_that_does_not_divide_the_rollout(checkpoint: Checkpoint, drawn: Source, stream: Stream) -> None:
    view = measure.policy_view(drawn.policy)
    four, weights = measure.policy_weights(checkpoint.estimator, stream, [4, 3])
    assert weights.windowed.shape == (ENVS, 30)
    found = measure.measure_windows(view, stream, [four, weights])[1]
    cut = stream._replace(observation=stream.observation[:, :30], action=stream.action[:, :30])
    [same] = measure.measure_windows(view, cut, [weights])
    np.testing.assert_allclose(found.row_gram, same.row_gram, rtol=1e-5, atol=1e-7)
    lone = replace(weights, num_steps=30)
    np.testing.assert_allclose(
        measure.measure_windows(view, cut, [lone])[0].window_norms, np.diag(same.row_gram), rtol=1e-3, atol=1e-7
    )


def test_lengths_that_do_not_fit_together_are_measured_as_alone(
    checkpoint: Checkpoint, drawn: Source, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = measure.policy_view(drawn.policy)
    weights = measure.policy_weights(checkpoint.estimator, stream, (3, 4, 32))
    whole = measure.measure_windows(view, stream, weights)
    monkeypatch.setattr(measure, "ROWS_BYTES", 1)
    for one, all_at_once in zip(measure.measure_windows(view, stream, weights), whole, strict=True):
        for name in ("window_norms", "row_gram", "bias_gram", "window_bias_gram"):
            np.testing.assert_allclose(getattr(one, name), getattr(all_at_once, name), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_network_without_traces_gives_the_same_statistics(
    checkpoint: Checkpoint, drawn: Source, stream: Stream
) -> None:
    """Policy and critic, windows, lags and rows; then the quantities that branch and reset environments."""
    custom = replace(drawn.policy, network=CustomNetwork(drawn.policy.network))
    short = Stream(*(x[:64] for x in stream))
    for view, weights_of in (
        (measure.policy_view, measure.policy_weights),
        (measure.critic_view, measure.critic_weights),
    ):
        weights = weights_of(checkpoint.estimator, short, (1, 4, 32))
        expected, found = (measure.measure_windows(view(p), short, weights) for p in (drawn.policy, custom))
        for one, other in zip(found, expected, strict=True):
            for name in ("window_norms", "row_gram", "bias_gram", "window_bias_gram"):
                scale = np.abs(getattr(other, name)).max()
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-4, atol=1e-5 * scale)
        lags, other_lags = (measure.measure_lags(view(p), short, weights[1]) for p in (drawn.policy, custom))
        np.testing.assert_allclose(other_lags, lags, rtol=1e-5, atol=1e-5 * np.abs(lags).max())
    replaced = copy.copy(checkpoint)
    replaced.policy = custom
    noises, other_noises = (measure_step_noises(c, num_states=64).noises for c in (checkpoint, replaced))
    assert noises is not None
    assert other_noises is not None
    assert other_noises.total.value == pytest.approx(noises.total.value, rel=1e-4)
    assert other_noises.sampling.value == pytest.approx(noises.sampling.value, rel=1e-4)
    phase, other_phase = (measure_reset_phase(c, num_envs=32, num_phases=2) for c in (checkpoint, replaced))
    assert phase.between is not None
    assert other_phase.between is not None
    assert other_phase.between.value == pytest.approx(phase.between.value, rel=1e-4, abs=1e-8)
