"""Random requests to the functions of the page, as they may come from its controls and from elsewhere."""

import random
from typing import Any

SIZES = [1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 60, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 65_536]
CONFIGS = [
    "n_envs: {n}\nn_steps: {t}\nbatch_size: {m}  # of SB3\nn_epochs: 10\nlearning_rate: 0.0003\n",
    "num_envs: {n}\nnum_steps: {t}\nnum_minibatches: {k}\nupdate_epochs: 4\ntotal_timesteps: 1000000\n",
    "params:\n  config:\n    num_actors: {n}\n    horizon_length: {t}\n    minibatch_size: {m}\n    mini_epochs: 5\n",
    '{{"NUM_ENVS": {n}, "NUM_STEPS": {t}, "NUM_MINIBATCHES": {k}, "TOTAL_TIMESTEPS": 1e6, "UPDATE_EPOCHS": 4}}',
    "runner:\n  num_steps_per_env: {t}\nalgorithm:\n  num_mini_batches: {k}\n  num_learning_epochs: 5\n",
]
DIALECTS = ["sb3", "cleanrl", "rl_games", "purejaxrl", "rsl_rl", "skrl", "brax", "rllib", "nonsense"]


def random_plan(chance: random.Random) -> dict[str, Any]:
    """A request to `plan`: mostly sensible, sometimes contradictory or out of range."""
    algo = chance.choice(["ppo", "ppo", "ppo", "a2c", "reinforce", "ppo-ewma", "rrd", "sac"])
    names = ["num_envs", "num_steps", "minibatch_size", "num_minibatches", "num_epochs", "rollout_size", "world_size",
             "num_agents", "seq_length", "action_dim", "episode_length"]  # fmt: skip
    if algo in ("rrd", "sac"):
        names = ["num_envs", "steps_per_iteration", "train_batches", "transition_batch_size", "learning_starts",
                 "rrd_batch_size", "rrd_sample_size", "buffer_size"]  # fmt: skip
    fields: dict[str, Any] = {"algo": algo}
    for name in names:
        if chance.random() < 0.4:
            fields[name] = chance.choice(SIZES) if name != "world_size" else chance.choice([1, 2, 4, 8])
    if chance.random() < 0.7:
        fields["total_timesteps"] = chance.choice([1000, 10**5, 10**6, 5 * 10**7, 10**9])
    if chance.random() < 0.2:
        fields["obs_shape"] = chance.choice([[4], [84, 84, 4], [210, 160, 3]])
    if chance.random() < 0.2:
        fields |= {"gamma": chance.choice([0.9, 0.99, 0.995, 1.0]), "gae_lambda": chance.choice([0.0, 0.9, 0.95, 1.0])}
    if algo not in ("rrd", "sac") and chance.random() < 0.2:
        fields["on_remainder"] = chance.choice(["fix", "warn"])
    return fields


def random_text(chance: random.Random) -> str:
    values = {
        "n": chance.choice(SIZES),
        "t": chance.choice(SIZES),
        "m": chance.choice(SIZES),
        "k": chance.choice([1, 2, 3, 4, 8]),
    }
    return chance.choice(CONFIGS).format(**values)


def random_call(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """(function, arguments) of a call that a command answers, too."""
    kind = chance.choice(["plan"] * 6 + ["translate", "patch", "rescale", "explain", "dialects"])
    if kind == "plan":
        return kind, random_plan(chance) | ({"diagram": "svg"} if chance.random() < 0.3 else {})
    if kind == "translate":
        return kind, {"text": random_text(chance), "from": chance.choice(DIALECTS), "to": chance.choice(DIALECTS)}
    if kind == "patch":
        return kind, {"text": random_text(chance), "dialect": chance.choice(DIALECTS), "num_envs": chance.choice(SIZES)}
    if kind == "rescale":
        return kind, {"text": random_text(chance), "dialect": chance.choice(DIALECTS), "num_envs": chance.choice(SIZES)}
    if kind == "explain":
        return kind, {"rule": chance.choice(["edge-weight", "divisibility", "memory", "all", "no-such-rule"])}
    return kind, {} if chance.random() < 0.5 else {"name": chance.choice(DIALECTS)}
