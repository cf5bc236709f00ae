"""Fingerprints of trained parameters: check whether a change of the code changes any training result.

    python benchmarks/fingerprints.py record before.json    # on the old code
    python benchmarks/fingerprints.py compare before.json   # on the new code

Every algorithm is trained for a few updates on a functional, a Gymnasium and an EnvPool environment, in one and in two
shards, and with the options that change the arithmetic of an update. A fingerprint consists of a hash of the final
parameters and a hash of all logged metrics except times. Fingerprints can be compared only on one CPU type with one set
of package versions. `--only TEXT` selects the cases whose names contain TEXT.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rollshape.training.metrics import TIMES
from rollshape.training.run import train
from rollshape.training.setup import open_run

SHAPE: dict[str, Any] = {"num_envs": 8, "num_steps": 16, "log_every": 2}
ON_POLICY: dict[str, dict[str, Any]] = {
    "ppo": {"algo": "ppo", "num_minibatches": 2, "num_epochs": 3, "entropy_coef": 0.01},
    "a2c": {"algo": "a2c"},
    "reinforce-none": {"algo": "reinforce", "baseline": "none"},
    "reinforce-mean": {"algo": "reinforce", "baseline": "mean"},
    "reinforce-value": {"algo": "reinforce", "baseline": "value"},
}
REPLAY: dict[str, Any] = {
    "num_envs": 4, "steps_per_iteration": 64, "train_batches": 4, "transition_batch_size": 32, "learning_starts": 128,
    "hidden_sizes": (16, 16), "log_every": 2, "total_timesteps": 1024,
}  # fmt: skip
PPO_OPTIONS: dict[str, dict[str, Any]] = {
    "normalizers": {"normalize_observations": True, "normalize_rewards": True, "normalize_advantages": "rollout"},
    "plain-advantages": {"normalize_advantages": "off", "max_grad_norm": None},
    "annealed": {"anneal_lr": True, "clip_value": True, "stagger": "burn-in"},
    "adaptive-kl": {"adaptive_kl": 0.01},
    "target-kl": {"target_kl": 0.0005, "learning_rate": 3e-3},
    "microbatches": {"microbatch_size": 16},
    "dropped": {"num_minibatches": None, "minibatch_size": 48, "on_remainder": "warn"},
    "monitored": {"monitor_gradients": True, "num_envs": 32},
    "episodic": {"episodic_reward": True},
}


def cases() -> dict[str, dict[str, Any]]:
    """Name → fields of a Spec."""
    found: dict[str, dict[str, Any]] = {}
    for name, settings in ON_POLICY.items():
        for backend in ("", "gymnasium:", "envpool:"):
            for shards in (1, 2):
                where = backend.rstrip(":") or "functional"
                found[f"{name}/{where}/{shards}"] = {
                    "env": f"{backend}CartPole-v1", "num_shards": shards, "total_timesteps": 768, **SHAPE, **settings,
                }  # fmt: skip
    for name, options in PPO_OPTIONS.items():
        for env in ("CartPole-v1", "gymnasium:Pendulum-v1"):
            if name == "annealed" and env != "CartPole-v1":
                options = {**options, "stagger": "none"}
            found[f"ppo-{name}/{env}"] = {
                "env": env, "num_shards": 2, "total_timesteps": 1024, **SHAPE, **ON_POLICY["ppo"], **options,
            }  # fmt: skip
    found["ppo-pictures/gymnax"] = {
        "env": "gymnax:Breakout-MinAtar", "num_shards": 1, "total_timesteps": 512, **SHAPE, **ON_POLICY["ppo"],
    }  # fmt: skip
    for algo in ("sac", "rrd"):
        sizes = {"rrd_batch_size": 32, "rrd_sample_size": 8} if algo == "rrd" else {}
        for env in ("Pendulum-v1", "CartPole-v1", "gymnasium:Pendulum-v1", "envpool:Pendulum-v1"):
            found[f"{algo}/{env}"] = {"env": env, "algo": algo, **REPLAY, **sizes}
    found["rrd-unbiased/CartPole-v1"] = {**found["rrd/CartPole-v1"], "rrd_unbiased": True}
    found["sac-episodic/CartPole-v1"] = {**found["sac/CartPole-v1"], "episodic_reward": True}
    return found


def parameters(path: Path) -> str:
    """A hash of the last checkpoint's networks, whatever the order in which the code keeps them."""
    driver, state = open_run(path)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(driver.algorithm.policy(state.learner).network)]
    parts = sorted(hashlib.sha256(f"{leaf.shape}{leaf.dtype}".encode() + leaf.tobytes()).hexdigest() for leaf in leaves)
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def fingerprint(settings: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        run = train(out=Path(scratch) / "run", **settings)
        rows = [{name: row[name] for name in sorted(row) if name not in TIMES} for row in run.metrics]
        return {"parameters": parameters(run.path), "final_return": run.final_return, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    before = json.loads(args.file.read_text()) if args.action == "compare" else {}
    found, differing = {}, 0
    for name, settings in cases().items():
        if args.only not in name or (args.action == "compare" and name not in before):
            continue
        found[name] = fingerprint(settings)
        if args.action == "record":
            print(f"{name:<40} {found[name]['parameters']}", flush=True)
            continue
        old, new = before[name], found[name]
        same = old["parameters"] == new["parameters"]
        differing += not same
        print(f"{name:<40} {'same' if same else 'DIFFERENT'}{_rows(old['rows'], new['rows'])}", flush=True)
    if args.action == "record":
        args.file.write_text(json.dumps(found, indent=1))
    else:
        print(f"{len(found) - differing} of {len(found)} have the same parameters")
    return int(differing > 0)


def _rows(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
    """The metrics that differ in a row that both have."""
    names = {
        name
        for before, after in zip(old, new, strict=False)
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    }
    return f", metrics differ: {', '.join(sorted(names))}" if names else ""


if __name__ == "__main__":
    sys.exit(main())
