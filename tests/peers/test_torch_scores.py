"""Scores of PyTorch policies by layers and by autodiff are those of torch.func, for every kind of layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from rollshape.integrations.lab import Lab, undisturbed
from rollshape.integrations.lab_part import Part, Subject
from rollshape.integrations.lab_sums import window_advantages
from rollshape.integrations.measurement import NotMeasurable
from rollshape.integrations.rollout import RecordedRollout
from rollshape.integrations.torch_scores import ScoreTracer

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
SAMPLES = 6


class Gaussian(nn.Module):
    """Actor and critic on a shared torso, with a state-independent log_std."""

    def __init__(self, torso: nn.Module, width: int, shape: tuple[int, ...] = (2,)) -> None:
        super().__init__()
        self.torso, self.mean, self.value = torso, nn.Linear(width, 2), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full(shape, -0.3))

    def forward(self, x: Any, action: Any) -> tuple[Any, Any]:
        features = self.torso(x)
        mean = self.mean(features)
        normal = torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean), validate_args=False)
        return normal.log_prob(action).sum(-1), self.value(features).flatten()


class MultiDiscrete(nn.Module):
    """Two categorical actions."""

    def __init__(self) -> None:
        super().__init__()
        self.torso, self.heads = nn.Linear(5, 8), nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 4)])

    def forward(self, x: Any, action: Any) -> tuple[Any, Any]:
        features = torch.relu(self.torso(x))
        logits = [head(features) for head in self.heads]
        chosen = (action.abs() * 2).long().clamp(max=2)
        log_probs = [torch.log_softmax(x, -1).gather(1, chosen[:, [i]])[:, 0] for i, x in enumerate(logits)]
        return sum(log_probs), features.sum(1)


class Twice(nn.Module):
    """A layer that is called twice, before an activation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.relu = nn.Linear(5, 5, bias=False), nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.layer(self.relu(self.layer(x)))


class Scan(nn.Module):
    """A GRU over the features as a sequence, and a parameter that no layer owns."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.scale = nn.GRU(1, 4, batch_first=True), nn.Parameter(torch.ones(4, 4))

    def forward(self, x: Any) -> Any:
        return self.gru(x[..., None])[0][:, -1] @ self.scale


class Untraceable(nn.Module):
    """Uses the weight of a layer without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        return torch.tanh(x @ self.layer.weight)


POLICIES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (lambda: Gaussian(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6)), 6), (5,)),
    "layer norm": (lambda: Gaussian(nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.ELU()), 7, (1, 2)), (5,)),
    "conv2d": (
        lambda: Gaussian(
            nn.Sequential(
                nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 2), nn.Flatten()
            ),
            36,
        ),
        (2, 8, 7),
    ),
    "conv1d": (lambda: Gaussian(nn.Sequential(nn.Conv1d(2, 3, 3, dilation=2, padding=1), nn.Flatten()), 21), (2, 9)),
    "grouped conv": (lambda: Gaussian(nn.Sequential(nn.Conv2d(2, 4, 2, groups=2), nn.Flatten()), 36), (2, 4, 4)),
    "multi-discrete": (MultiDiscrete, (5,)),
    "a layer twice": (lambda: Gaussian(Twice(), 5), (5,)),
    "gru": (lambda: Gaussian(Scan(), 4), (5,)),
}


def make(name: str) -> tuple[nn.Module, Any, Any, Any]:
    torch.manual_seed(0)
    build, shape = POLICIES[name]
    policy = build()
    x, action = torch.randn(SAMPLES, *shape), torch.randn(SAMPLES, 2)
    return policy, x, action, lambda index: policy(x[index], action[index])


def expected_products(policy: nn.Module, x: Any, action: Any) -> Any:
    parameters = {name: p.detach() for name, p in policy.named_parameters()}
    gradient = torch.func.grad(lambda p, i: torch.func.functional_call(policy, p, (x[[i]], action[[i]]))[0][0])
    rows = [torch.cat([g.flatten() for g in gradient(parameters, i).values()]) for i in range(SAMPLES)]
    return torch.stack(rows) @ torch.stack(rows).T


@pytest.mark.parametrize("by_layers", [True, False], ids=["layers", "autodiff"])
@pytest.mark.parametrize("name", POLICIES)
def test_products_of_scores_are_those_of_torch_func(name: str, by_layers: bool) -> None:
    policy, x, action, evaluate = make(name)
    with undisturbed(policy):
        traces, log_prob = ScoreTracer(policy, evaluate, by_layers).trace(torch.arange(SAMPLES))
    products = sum(trace.gram_blocks(1)[0] for trace in traces)
    expected = expected_products(policy, x, action)
    assert torch.linalg.norm(products - expected) <= 1e-5 * torch.linalg.norm(expected)
    torch.testing.assert_close(log_prob, policy(x, action)[0].detach())
    weights = torch.arange(SAMPLES) - 2.0
    sums = torch.cat([trace.sums(weights, 1) for trace in traces], 1)
    assert float((sums**2).sum()) == pytest.approx(float(weights @ expected @ weights), rel=1e-4)


@pytest.mark.parametrize("name", POLICIES)
def test_the_policy_is_left_as_it_is(name: str) -> None:
    policy, _, _, evaluate = make(name)
    policy.train()
    state, before = torch.get_rng_state(), [p.detach().clone() for p in policy.parameters()]
    with undisturbed(policy):
        ScoreTracer(policy, evaluate).trace(torch.arange(SAMPLES))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
    assert all(p.grad is None and p.is_leaf for p in policy.parameters())
    assert all(part.training and not part._forward_hooks for part in policy.modules())


def gae(rewards: np.ndarray, values: np.ndarray, last: np.ndarray, ended: np.ndarray, window: int) -> np.ndarray:
    """GAE with γ = 0.9 and λ = 0.8 over windows that bootstrap at their own edges."""
    following = np.concatenate([values[1:], last[None]])
    deltas = rewards + 0.9 * (1 - ended) * following - values
    result, current = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        current = deltas[step] + (0.72 * (1 - ended[step]) * current if (step + 1) % window else 0)
        result[step] = current
    return result


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 12])
def test_advantages_of_shorter_windows_follow_from_those_of_the_rollout(window: int) -> None:
    rng = np.random.default_rng(3)
    rewards, values, last = rng.normal(size=(12, 5)), rng.normal(size=(12, 5)), rng.normal(size=5)
    ended = rng.random((12, 5)) < 0.2
    advantages = gae(rewards, values, last, ended, 12)
    rollout = RecordedRollout(rewards, values, advantages, values + advantages, ended)
    subject = Subject(nn.Linear(1, 1), lambda _: None, advantages, 0.72, centered=False)  # type: ignore[arg-type, return-value]
    shorter = window_advantages(rollout, subject, Part(5, 12, [window], []), window)
    np.testing.assert_allclose(shorter.T, gae(rewards, values, last, ended, window), rtol=1e-9, atol=1e-12)


def test_from_32_environments_on_there_is_a_surface() -> None:
    result = measure(Gaussian(nn.Linear(5, 6), 6), steps=4, envs=40)
    assert [(point.num_envs, point.num_steps) for point in result.surface] == [(160, 1), (80, 2), (40, 4)]
    run = result.surface[-1]
    assert run.variance.value == pytest.approx(result.variance["total"].value, rel=1e-4)
    assert run.bias2.value == pytest.approx(0.0, abs=1e-9)
    assert run.variance.low < run.variance.value < run.variance.high
    assert [point.size for point in result.minibatch] == [8, 16, 64]
    assert measure(Gaussian(nn.Linear(5, 6), 6)).surface == []


def measure(policy: nn.Module, steps: int = 4, envs: int = 8) -> Any:
    torch.manual_seed(1)
    x, action = torch.randn(steps * envs, 5), torch.randn(steps * envs, 2)

    def evaluate(index: Any) -> Any:
        return policy(x[index], action[index])

    with torch.no_grad():
        log_probs = evaluate(torch.arange(steps * envs))[0].double().numpy().reshape(steps, envs)
    advantages = np.random.default_rng(0).normal(size=(steps, envs))
    rollout = RecordedRollout(
        rewards=advantages, values=advantages, advantages=advantages, returns=advantages,
        ended=np.zeros((steps, envs), bool),
    )  # fmt: skip
    subject = Subject(policy, evaluate, log_probs, 0.9, True)
    return Lab().measure(rollout, subject, update=1, timesteps=steps * envs, minibatch_size=8)


def test_a_policy_whose_layers_mislead_is_measured_by_autodiff() -> None:
    assert measure(Gaussian(nn.Linear(5, 6), 6)).measured.method == "layers"
    assert measure(Gaussian(Untraceable(), 5)).measured.method == "autodiff"


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(5), nn.Dropout(0.5)], ids=["BatchNorm", "dropout"])
def test_samples_that_depend_on_others_or_on_chance_are_refused(layer: nn.Module) -> None:
    with pytest.raises(NotMeasurable, match="BatchNorm or dropout"):
        measure(Gaussian(nn.Sequential(nn.Linear(5, 5), layer), 5))


def test_actions_that_are_not_those_of_the_rollout_are_refused() -> None:
    policy = Gaussian(nn.Linear(5, 6), 6)
    right = policy.forward
    calls: list[int] = []

    def changed(x: Any, action: Any) -> Any:
        calls.append(len(x))
        log_prob, value = right(x, action)
        return (log_prob if len(calls) == 1 else log_prob + 0.1), value

    policy.forward = changed  # type: ignore[method-assign]
    with pytest.raises(NotMeasurable, match="differs from what was recorded"):
        measure(policy)
