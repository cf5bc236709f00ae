"""The example on an SB3 policy gives the statistics of torch's own per-sample gradients."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rollshape.gradients import gram

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "sb3_gradients.py"
ENVS, STEPS = 32, 6


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("sb3_gradients", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def per_sample(policy: Any, observations: Any, actions: Any, advantages: np.ndarray) -> np.ndarray:
    """A·∇log π of every step by torch.func, [N, T, P]; parameters that log π does not touch are zeros."""
    parameters = {name: p.detach() for name, p in policy.named_parameters()}

    def log_prob(parameters: Any, observation: Any, action: Any) -> Any:
        class Asked(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.policy = policy

            def forward(self, observation: Any, action: Any) -> Any:
                features = self.policy.extract_features(observation)
                latent = self.policy.mlp_extractor.forward_actor(features)
                return torch.log_softmax(self.policy.action_net(latent), -1).gather(-1, action[..., None].long())

        named = {f"policy.{name}": value for name, value in parameters.items()}
        return torch.func.functional_call(Asked(), named, (observation[None], action))[0, 0]

    each = torch.func.vmap(torch.func.grad(log_prob), (None, 0, 0))
    flat = observations.reshape(-1, observations.shape[-1]), actions.reshape(-1, 1)
    found = each(parameters, *flat)
    whole = torch.cat([g.reshape(len(flat[0]), -1) for g in found.values()], 1).numpy().astype(np.float64)
    return whole.reshape(ENVS, STEPS, -1) * advantages[..., None]


def test_the_numbers_are_those_of_per_sample_gradients(example: Any) -> None:
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=ENVS, seed=0), n_steps=STEPS, batch_size=ENVS * STEPS,
                seed=0, device="cpu")  # fmt: skip
    model.learn(ENVS * STEPS * 2)
    observations, actions, advantages = example.fresh_rollout(model)
    scores = example.score_traces(model.policy, observations, actions)
    g = per_sample(model.policy, observations, actions, advantages)
    blocks = gram.gram_blocks(gram.scale_traces(scores, advantages))
    expected = np.einsum("ntp,nsp->nts", g, g)
    np.testing.assert_allclose(blocks, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())

    found, scales = example.gradient_statistics(scores, advantages)
    rows, mean = g.mean(1), g.mean((0, 1))
    norm = (ENVS**2 * mean @ mean - (rows**2).sum()) / (ENVS * (ENVS - 1))
    total = ((rows**2).sum(1).mean() - norm) / ENVS
    individual = ((g**2).sum(-1).mean() - norm) / (ENVS * STEPS)
    assert found.total.value == pytest.approx(total, rel=1e-3)
    assert found.individual.value == pytest.approx(individual, rel=1e-3)
    assert found.covariance.value == pytest.approx(total - individual, rel=1e-3, abs=1e-3 * total)
    assert found.effective_sample_size.value == pytest.approx(ENVS * STEPS * individual / total, rel=1e-3)
    if scales.clustered.value is not None:
        assert scales.clustered.value == pytest.approx(ENVS * STEPS * total / norm, rel=1e-2)
