"""One run of SB3's PPO with the settings that benchmarks/mujoco.py gives as JSON; prints return and speed as JSON."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from host_env import HostVecEnv
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

EPISODES = 128


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)  # its fastest here
    env = VecNormalize(HostVecEnv(asked["env"], asked["num_envs"], asked["seed"]), gamma=asked["gamma"])
    rate = asked["learning_rate"]
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=asked["num_steps"],
        batch_size=asked["minibatch_size"],
        n_epochs=asked["num_epochs"],
        learning_rate=lambda left: rate * left,
        gamma=asked["gamma"],
        gae_lambda=asked["gae_lambda"],
        clip_range=asked["clip_range"],
        max_grad_norm=asked["max_grad_norm"],
        vf_coef=asked["value_coef"],
        seed=asked["seed"],
        device="cpu",
    )
    started = time.perf_counter()
    model.learn(asked["total_timesteps"])
    seconds = time.perf_counter() - started
    fresh = HostVecEnv(asked["env"], EPISODES, asked["seed"] + 10_000)
    seen, returns, done = fresh.reset(), np.full(EPISODES, np.nan), np.zeros(EPISODES, bool)
    while not done.all():
        actions, _ = model.predict(env.normalize_obs(seen), deterministic=False)
        fresh.step_async(actions)
        seen, _, ended, infos = fresh.step_wait()
        for i in np.flatnonzero(ended & ~done):
            returns[i], done[i] = infos[i]["episode_return"], True
    print(json.dumps({"final_return": float(returns.mean()), "sps": model.num_timesteps / seconds}))


if __name__ == "__main__":
    main()
