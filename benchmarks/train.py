"""Training speed beside SB3's at the same shape and settings, in one run.

CartPole-v1, 64-64 networks, 4 epochs, 4 minibatches. SB3 runs in the peers' environment (`make test-peers` sets it up)
with one thread, which is its fastest here, and Gymnasium's SyncVectorEnv through DummyVecEnv.
Run: make bench-train
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rollshape.training.bench import bench

SHAPES = ("4x128", "64x128", "512x16", "2048x16")
AGAINST_SB3 = {"4x128": 25, "64x128": 8}  # how many times as fast it has to be
UTILISATION = {"4x128": 0.20, "64x128": 0.30, "512x16": 0.30, "2048x16": 0.35}
PEERS = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"
SB3 = """
import sys, time, torch
torch.set_num_threads(1)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
n, t = int(sys.argv[1]), int(sys.argv[2])
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=n, seed=0), n_steps=t, batch_size=n * t // 4, n_epochs=4,
            ent_coef=0.01, seed=0, device="cpu")
model.learn(n * t)
updates = max(2, 40_000 // (n * t))
started = time.perf_counter()
model.learn(updates * n * t, reset_num_timesteps=False)
print(updates * n * t / (time.perf_counter() - started))
"""


def sb3_speed(shape: str) -> float | None:
    if not PEERS.exists():
        return None
    command = [str(PEERS), "-W", "ignore", "-c", SB3, *shape.split("x")]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main() -> int:
    met = True
    print("     shape     steps/s  utilisation    bar  SB3 steps/s   ratio   bar")
    for row in bench("CartPole-v1", SHAPES, seconds=5.0):
        theirs = sb3_speed(row.shape) if row.shape in AGAINST_SB3 else None
        ratio = row.sps / theirs if theirs else None
        met = met and row.utilisation >= UTILISATION[row.shape]
        met = met and (ratio is None or ratio >= AGAINST_SB3[row.shape])
        beside = f"{theirs:>11,.0f}  {ratio:>6.1f}  {AGAINST_SB3[row.shape]:>4}" if theirs and ratio else ""
        print(f"{row.shape:>10}  {row.sps:>10,}  {row.utilisation:>11.3f}  {UTILISATION[row.shape]:>5.2f}  {beside}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
