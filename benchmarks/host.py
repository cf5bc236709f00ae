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
    step, actions, stepping = env.step, list[Values](), list[float]()

    def recording_step(action: Values) -> HostStep:
        actions.append(action)
        began = time.perf_counter()
        outcome = step(action)
        stepping.append(time.perf_counter() - began)
        return outcome

    env.step = recording_step  # type: ignore[method-assign]
    state, _, _ = driver.advance(state, UPDATES)
    steps = UPDATES * driver.plan.rollout_size
    raw, ours, parts = [], [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for action in actions:
            step(action)
        raw.append(steps / (time.perf_counter() - began))
        actions.clear()
        stepping.clear()
        state, _, times = driver.advance(state, UPDATES)
        ours.append(steps / sum(times))
        in_steps = sum(stepping)
        parts.append((in_steps, times.rollout - in_steps, times.update))
    driver.close()
    ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, raw, strict=True))
    print(f"raw stepping {statistics.median(raw):,.0f} steps/s, training {statistics.median(ours):,.0f} steps/s: "
          f"{ratio:.2f} (bar {BAR})")  # fmt: skip
    in_steps, in_python, learning = (1e3 * statistics.median(part) / UPDATES for part in zip(*parts, strict=True))
    print(f"of an update {in_steps:.1f} ms are steps of the environments, {in_python:.1f} ms choosing actions and "
          f"storing what they lead to, {learning:.1f} ms learning")  # fmt: skip
    return 0 if ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
