"""Training speed in EnvPool, compared with stepping the same pool without training.

HalfCheetah-v5, 64 × 32, 10 epochs of 4 minibatches. Both rates are medians of alternating intervals in one process.
Stepping uses the actions that the policy took in the previous interval, because the time per step depends on them.
Run: .venv/bin/python benchmarks/host.py
"""

from __future__ import annotations

import statistics
import sys
import time

from rollshape.algorithms.parallel import reserve_devices
from rollshape.envs.host import HostStep, Values
from rollshape.training.host_driver import HostDriver
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec

BAR, ROUNDS, UPDATES = 0.75, 40, 10


def main() -> int:
    reserve_devices()
    spec = Spec(env="envpool:HalfCheetah-v5", num_envs=64, num_steps=32, num_epochs=10, num_minibatches=4,
                total_timesteps=2**30, normalize_observations=True, normalize_rewards=True)  # fmt: skip
    driver = new_driver(spec, plan_run(spec), UPDATES)
    assert isinstance(driver, HostDriver)
    state, env = driver.start(), driver.env
    driver.restore(None)
    driver.compile()
    step, actions = env.step, list[Values]()

    def recording_step(action: Values) -> HostStep:
        actions.append(action)
        return step(action)

    env.step = recording_step  # type: ignore[method-assign]
    state, _, _ = driver.advance(state, UPDATES)
    steps = UPDATES * driver.plan.rollout_size
    raw, ours, shares = [], [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for action in actions:
            step(action)
        raw.append(steps / (time.perf_counter() - began))
        actions.clear()
        state, _, times = driver.advance(state, UPDATES)
        ours.append(steps / sum(times))
        shares.append(times.rollout / sum(times))
    driver.close()
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, raw, strict=True))
    print(f"raw stepping {statistics.median(raw):,.0f} steps/s, training {statistics.median(ours):,.0f} steps/s: "
          f"{ratio:.2f} (bar {BAR}); {statistics.median(shares):.0%} of the time is collecting")  # fmt: skip
    return 0 if ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
