"""What a rollout of your own PyTorch policy is worth: rollshape.gradients on plain arrays, here of SB3's PPO.

Each Linear layer leaves its inputs and the derivatives by its outputs, for all steps in one forward and one backward
pass; from these rollshape has every inner product of per-step gradients, and no per-step gradient is ever stored.
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
    """N × T steps of the policy as it is now: observations [N, T, …], choices [N, T], SB3's own GAE [N, T]."""
    buffer, callback = model.rollout_buffer, model._init_callback(None)
    model.collect_rollouts(model.env, callback, buffer, model.n_steps)
    observations, actions = (torch.as_tensor(x).swapaxes(0, 1) for x in (buffer.observations, buffer.actions))
    choices = actions[..., 0].long()  # SB3 keeps a discrete action as [1]
    return observations, choices, buffer.advantages.T.copy()  # not normalised: that would couple environments


def score_traces(policy: torch.nn.Module, observations: torch.Tensor, actions: torch.Tensor) -> list[gram.Trace]:
    """Inputs and errors of every Linear layer that log π(a|s) passes through, [N, T, in] and [N, T, out].

    A parameter that is no layer, such as the log_std of continuous actions, would be one more Trace, of no inputs.
    """
    lead = observations.shape[:2]
    inputs: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []

    def remember(_: torch.nn.Module, seen: tuple[torch.Tensor, ...], given: torch.Tensor) -> None:
        inputs.append(seen[0])
        outputs.append(given)

    layers = [m for part in (policy.mlp_extractor.policy_net, policy.action_net) for m in part.modules()]
    hooks = [layer.register_forward_hook(remember) for layer in layers if isinstance(layer, torch.nn.Linear)]
    try:
        flat = (x.reshape(-1, *x.shape[2:]) for x in (observations, actions))
        log_prob = policy.evaluate_actions(*flat)[1]
    finally:
        for hook in hooks:
            hook.remove()
    errors = torch.autograd.grad(log_prob.sum(), outputs)  # steps do not touch each other: each gets its own

    def array(x: torch.Tensor) -> np.ndarray:
        return x.detach().reshape(*lead, -1).numpy()

    return [gram.Trace(array(a), array(delta)) for a, delta in zip(inputs, errors, strict=True)]


def worth(scores: list[gram.Trace], advantages: np.ndarray) -> tuple[Variance, NoiseScales]:
    """Terms 1 and 2, effective sample size and noise scales of the gradient A·∇log π, with intervals."""
    steps = gram.scaled(scores, advantages)
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
    found, scales = worth(score_traces(model.policy, observations, actions), advantages)
    print(
        f"SB3 PPO on CartPole-v1 after {model.num_timesteps:,} steps, a rollout of {found.num_envs}×{found.num_steps}"
    )
    rows = {
        "tr Var of its gradient": found.total,
        "  Term 1, individual noise": found.individual,
        "  Term 2, correlation along time": found.covariance,
        "effective sample size": found.effective_sample_size,
    }
    for name, estimate in rows.items():
        print(f"{name:<34} {estimate.value:10.4g}   95 %: {estimate.low:.4g} … {estimate.high:.4g}")
    for name, scale in (("noise scale, by environments", scales.clustered), ("noise scale, shuffled", scales.naive)):
        high = "∞" if scale.high is None else f"{scale.high:.4g}"
        told = scale.reason if scale.value is None else f"{scale.value:10.4g}   95 %: {scale.low:.4g} … {high}"
        print(f"{name:<34} {told}")


if __name__ == "__main__":
    main()
