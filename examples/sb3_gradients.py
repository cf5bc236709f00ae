"""Gradient statistics of a PyTorch policy: rollshape.gradients on plain arrays, here for SB3's PPO.

One forward and one backward pass over all steps record the inputs of every Linear layer and the derivatives with
respect to its outputs. From these rollshape computes all inner products of per-step gradients without storing one.
Run, where both are installed: python examples/sb3_gradients.py [timesteps]
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rollshape.gradients import gram
from rollshape.gradients.noise_scale import NoiseScales, noise_scales
from rollshape.gradients.variance import Variance, lag_products, variance


def fresh_rollout(model: PPO) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Collect N × T steps of the current policy: observations [N, T, …], actions [N, T], SB3's GAE [N, T]."""
    buffer, callback = model.rollout_buffer, model._init_callback(None)
    model.collect_rollouts(model.env, callback, buffer, model.n_steps)
    observations, actions = (torch.as_tensor(x).swapaxes(0, 1) for x in (buffer.observations, buffer.actions))
    discrete = actions[..., 0].long()  # SB3 stores a discrete action as [1]
    return observations, discrete, buffer.advantages.T.copy()  # not normalized: that would couple environments


def score_traces(policy: torch.nn.Module, observations: torch.Tensor, actions: torch.Tensor) -> list[gram.Trace]:
    """Return inputs and errors of every Linear layer on the path of log π(a|s), [N, T, in] and [N, T, out].

    A parameter that is not a layer, such as log_std of continuous actions, would be one more Trace, without inputs.
    """
    lead = observations.shape[:2]
    inputs: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []

    def record(_: torch.nn.Module, layer_inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        inputs.append(layer_inputs[0])
        outputs.append(output)

    layers = [m for part in (policy.mlp_extractor.policy_net, policy.action_net) for m in part.modules()]
    hooks = [layer.register_forward_hook(record) for layer in layers if isinstance(layer, torch.nn.Linear)]
    try:
        flat = (x.reshape(-1, *x.shape[2:]) for x in (observations, actions))
        log_prob = policy.evaluate_actions(*flat)[1]
    finally:
        for hook in hooks:
            hook.remove()
    errors = torch.autograd.grad(log_prob.sum(), outputs)  # steps are independent: each gets its own

    def array(x: torch.Tensor) -> np.ndarray:
        return x.detach().reshape(*lead, -1).numpy()

    return [gram.Trace(array(a), array(delta)) for a, delta in zip(inputs, errors, strict=True)]


def gradient_statistics(scores: list[gram.Trace], advantages: np.ndarray) -> tuple[Variance, NoiseScales]:
    """Return variance, effective sample size and noise scales of the gradient A·∇log π, with intervals."""
    steps = gram.scale_traces(scores, advantages)
    lags, row_gram = lag_products(gram.gram_blocks(steps)), gram.row_gram(steps)
    rng = np.random.default_rng(0)
    return variance(lags, row_gram, rng), noise_scales(lags[:, 0], row_gram, advantages.shape[1], rng)


def main() -> None:
    timesteps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=64, seed=0), n_steps=32, batch_size=512, seed=0,
                device="cpu")  # fmt: skip
    model.learn(timesteps)
    observations, actions, advantages = fresh_rollout(model)
    variances, scales = gradient_statistics(score_traces(model.policy, observations, actions), advantages)
    shape = f"{variances.num_envs}×{variances.num_steps}"
    print(f"SB3 PPO on CartPole-v1 after {model.num_timesteps:,} steps, a rollout of {shape}")
    rows = {
        "variance of its gradient": variances.total,
        "  from individual steps": variances.individual,
        "  from correlation along time": variances.covariance,
        "effective sample size": variances.effective_sample_size,
    }
    for name, estimate in rows.items():
        print(f"{name:<34} {estimate.value:10.4g}   95 %: {estimate.low:.4g} … {estimate.high:.4g}")
    for name, scale in (("noise scale", scales.clustered), ("noise scale, steps independent", scales.naive)):
        high = "∞" if scale.high is None else f"{scale.high:.4g}"
        text = scale.reason if scale.value is None else f"{scale.value:10.4g}   95 %: {scale.low:.4g} … {high}"
        print(f"{name:<34} {text}")


if __name__ == "__main__":
    main()
