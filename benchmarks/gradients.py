"""Cost of gradient statistics, in full-batch gradients of the same data, and overhead of the monitor in training.

All ratios are of medians of alternating runs in one process. The per-sample gradients of torch.func run in the peers'
environment (`make test-peers` creates it) and are compared with a full-batch gradient in torch.
Run: make bench-gradients
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rollshape.agents.distributions import Categorical
from rollshape.agents.networks import ActorCritic
from rollshape.agents.policy import Policy
from rollshape.agents.returns import gae
from rollshape.algorithms.parallel import reserve_devices
from rollshape.envs.registry import make
from rollshape.envs.spaces import Discrete, Observation
from rollshape.gradients import autodiff, gram
from rollshape.gradients.surface import surface
from rollshape.gradients.traces import policy_traces
from rollshape.gradients.variance import Components, components, lag_products
from rollshape.gradients.windows import Weights
from rollshape.probes.collect import Stream
from rollshape.probes.measure import measure_windows, policy_view
from rollshape.training.compiled_driver import CompiledDriver
from rollshape.training.spec import Spec

PEERS = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"
GRAM_BAR, SURFACE_BAR, MONITOR_BAR = 2.5, 60.0, 0.05
POLICY, INPUTS = Categorical(2), 4
MONITORED = (("64x32", 1), ("64x32", 8), ("64x128", 1), ("512x16", 1), ("2048x16", 1))  # shape, updates in an interval

TORCH = """
import json, statistics, sys, time, torch
from torch.func import functional_call, grad, vmap
n, t, width = 256, 32, 64
net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(),
                          torch.nn.Linear(width, 2))
params = dict(net.named_parameters())
obs, act, adv = torch.randn(n * t, 4), torch.randint(2, (n * t,)), torch.randn(n * t)
def loss(params, obs, act, adv):
    log_prob = torch.log_softmax(functional_call(net, params, (obs,)), -1)
    return (log_prob.gather(-1, act[..., None])[..., 0] * adv).mean()
def full():
    grad(loss)(params, obs, act, adv)
per_sample = vmap(grad(loss), (None, 0, 0, 0))
def gram():
    for e in range(0, n, 32):
        at = slice(e * t, (e + 32) * t)
        gradients = per_sample(params, obs[at], act[at], adv[at])
        rows = torch.cat([x.reshape(32, t, -1) for x in gradients.values()], -1)
        rows @ rows.transpose(1, 2)
def seconds(f):
    started = time.perf_counter(); f(); return time.perf_counter() - started
full(); gram()
pairs = [(seconds(full), seconds(gram)) for _ in range(int(sys.argv[1]))]
print(json.dumps([statistics.median(x) for x in zip(*pairs)]))
"""


class Data:
    """Random observations, actions and advantages of N × T steps, and a 64-64 network."""

    def __init__(self, envs: int, steps: int) -> None:
        keys = jax.random.split(jax.random.key(0), 4)
        self.model = ActorCritic(keys[0], Observation((INPUTS,)), Discrete(2))
        self.observations = jax.random.normal(keys[1], (envs, steps, INPUTS))
        self.actions = jax.random.randint(keys[2], (envs, steps), 0, 2)
        self.advantages = jax.random.normal(keys[3], (envs, steps))

    @property
    def steps(self) -> tuple[Array, Array, Array]:
        return self.observations, self.actions, self.advantages


def loss(actor: Any, steps: tuple[Array, Array, Array]) -> Array:
    """A·log π of one step."""
    observation, action, advantage = steps
    return advantage * POLICY.log_prob(actor(observation[None])[0], action)


@jax.jit
def full_gradient(model: ActorCritic, steps: tuple[Array, Array, Array]) -> Any:
    observations, actions, advantages = (x.reshape(-1, *x.shape[2:]) for x in steps)
    return jax.grad(lambda actor: (POLICY.log_prob(actor(observations), actions) * advantages).mean())(model.actor)


@jax.jit
def statistics_by_traces(model: ActorCritic, steps: tuple[Array, Array, Array]) -> Components:
    """Compute all T×T Gram blocks, both terms of the variance and all lags."""
    observations, actions, advantages = steps
    traces = gram.scale_traces(policy_traces(model, POLICY, observations, actions), advantages)
    return components(lag_products(gram.gram_blocks(traces)), gram.squared_norm(gram.mean_gradient(traces)))


@jax.jit
def gram_by_vmap(model: ActorCritic, steps: tuple[Array, Array, Array]) -> Array:
    return autodiff.gram_blocks(loss, model.actor, steps)


def time_alternating(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of every action; they alternate, and the first round compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for i in range(repeats + 1):
        for name, action in actions.items():
            started = time.perf_counter()
            jax.block_until_ready(action())
            if i:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def gram_cost(repeats: int) -> bool:
    data = Data(256, 32)
    seconds = time_alternating(
        {
            "full": lambda: full_gradient(data.model, data.steps),
            "traces": lambda: statistics_by_traces(data.model, data.steps),
            "vmap": lambda: gram_by_vmap(data.model, data.steps),
        },
        repeats,
    )
    ratio = seconds["traces"] / seconds["full"]
    print(f"256×32, 64-64 actor: one full-batch gradient {1e3 * seconds['full']:.1f} ms")
    print(f"  Gram blocks, variance, all lags        {ratio:6.2f} ×   (limit {GRAM_BAR})")
    print(f"  Gram blocks by vmap(grad)              {seconds['vmap'] / seconds['full']:6.2f} ×")
    if PEERS.exists():
        command = [str(PEERS), "-W", "ignore", "-c", TORCH, str(repeats)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        full, per_sample = json.loads(output.splitlines()[-1])
        print(f"  Gram blocks by torch.func              {per_sample / full:6.2f} ×   of torch's {1e3 * full:.1f} ms")
    return ratio <= GRAM_BAR


@partial(jax.jit, static_argnums=(3, 4))
def window_advantages(rewards: Array, values: Array, last: Array, steps: int, lam: float) -> Array:
    """Return the GAE of windows of T steps, truncated at the edge of each, [N, T₀]."""
    shape = rewards.shape
    following = jnp.concatenate([values[:, 1:], last[:, None]], 1)
    never = jnp.zeros((rewards.size // steps, steps), bool)
    parts = (x.reshape(-1, steps) for x in (rewards, values, following))
    return jax.vmap(lambda *x: gae(*x, 0.99, lam))(*parts, never, never).reshape(shape)


def whole_surface(data: Data) -> Any:
    """Compute the surface of rollouts of 8192 at every T that is a power of two, with intervals."""
    envs, longest = data.advantages.shape
    rewards, values = data.advantages, data.observations[..., 0]
    estimate = partial(window_advantages, rewards, values, jnp.zeros(envs))
    long, reference = estimate(longest, 0.95), estimate(longest, 1.0)
    weights = [
        Weights(steps, estimate(steps, 0.95), long, reference) for steps in (2**i for i in range(longest.bit_length()))
    ]
    unused: Any = None
    stream = Stream(data.observations, data.actions, *[unused] * 6)
    surface(
        8192, measure_windows(policy_view(Policy(data.model, None, POLICY)), stream, weights), np.random.default_rng(0)
    )
    return long


compute_traces = jax.jit(lambda model, observations, actions: policy_traces(model, POLICY, observations, actions))


def surface_cost(envs: int, steps: int, repeats: int) -> dict[str, float]:
    data = Data(envs, steps)
    jax.block_until_ready(full_gradient(data.model, data.steps))
    before = peak_bytes()
    jax.block_until_ready(whole_surface(data))
    grown = peak_bytes() - before
    seconds = time_alternating(
        {"full": lambda: full_gradient(data.model, data.steps), "surface": lambda: whole_surface(data)}, repeats
    )
    return {**seconds, "peak": grown}


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_surface(envs: int, steps: int, repeats: int) -> bool:
    """Measure in a separate process, whose peak memory is that of the surface alone."""
    command = [sys.executable, __file__, "surface", str(envs), str(steps), str(repeats)]
    seconds = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    ratio, data = seconds["surface"] / seconds["full"], Data(1, 1)
    width = sum(t.inputs.size + t.errors.size for t in compute_traces(data.model, data.observations, data.actions))
    print(f"{envs}×{steps}: one full-batch gradient {1e3 * seconds['full']:.0f} ms")
    print(f"  the surface of all T = 1, 2 … {steps}       {ratio:6.1f} ×   (limit {SURFACE_BAR:.0f})")
    print(f"  its peak memory                        {seconds['peak'] / 1e9:6.2f} GB, "
          f"{seconds['peak'] / (4 * width * envs * steps):.1f} × its traces")  # fmt: skip
    return bool(ratio <= SURFACE_BAR)


def monitor_cost(repeats: int) -> bool:
    """Compare training with and without the monitor, in alternating intervals."""
    met = True
    for shape, interval in MONITORED:
        envs, steps = (int(part) for part in shape.split("x"))
        runs = []
        for monitored in (False, True):
            spec = Spec(num_envs=envs, num_steps=steps, num_minibatches=4, num_epochs=4, total_timesteps=2**40,
                        monitor_gradients=monitored)  # fmt: skip
            driver = CompiledDriver(spec, spec.plan(), make(spec.env), interval)
            runs.append([driver, driver.start(), []])
        for i in range(repeats + 2):
            for run in runs:
                driver, state, times = run
                run[1], _, spent = driver.advance(state, interval)
                times.extend([sum(spent)] * (i > 1))
        plain, with_monitor = (statistics.median(times) for _, _, times in runs)
        overhead = with_monitor / plain - 1
        met = met and overhead <= MONITOR_BAR
        print(
            f"  monitor at {shape:>8}, {interval} updates per row {100 * overhead:6.1f} %   (limit {MONITOR_BAR:.0%})"
        )
    return met


def main() -> int:
    if sys.argv[1:2] == ["surface"]:
        print(json.dumps(surface_cost(*(int(x) for x in sys.argv[2:5]))))
        return 0
    reserve_devices()
    quick = "--quick" in sys.argv  # to check that it runs
    met = [
        gram_cost(3 if quick else 40),
        measure_surface(*((64, 32, 1) if quick else (1024, 256, 3))),
        monitor_cost(3 if quick else 100),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
