"""A config of another library becomes a Spec; whatever does not is listed."""

from typing import Any

import pytest

from rollshape.geometry.dialects import translate
from rollshape.training.config_keys import CONFIG_KEYS
from rollshape.training.from_config import settings_from_config
from rollshape.training.spec import Spec, checked_spec

ZOO: dict[str, Any] = {
    "CartPole-v1": {
        "policy": "MlpPolicy",
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 64,
        "n_timesteps": 2048,
        "learning_rate": "lin_0.001",
        "clip_range": "lin_0.2",
        "normalize": "{'norm_obs': True, 'norm_reward': False}",
        "policy_kwargs": "dict(net_arch=dict(pi=[32, 16], vf=[32, 16]), activation_fn=nn.ReLU)",
    }
}
ISAAC: dict[str, Any] = {
    "params": {
        "seed": 42,
        "network": {"mlp": {"units": [64, 32], "activation": "elu"}, "rnn": {"name": "lstm"}},
        "config": {
            "num_actors": -1,
            "horizon_length": 16,
            "minibatch_size": 100,
            "mini_epochs": 4,
            "max_epochs": 10,
            "learning_rate": 5e-4,
            "normalize_input": True,
            "clip_value": True,
        },
    }
}


def spec_of(fields: dict[str, Any]) -> Spec:
    return checked_spec(Spec(**({"env": "CartPole-v1"} | fields)))


def test_a_file_of_rl_zoo() -> None:
    taken = settings_from_config(ZOO, "sb3")
    spec = spec_of(taken.fields)
    assert (spec.env, spec.num_envs, spec.num_steps, spec.minibatch_size) == ("CartPole-v1", 8, 32, 64)
    assert (spec.hidden_sizes, spec.activation) == ((32, 16), "relu")
    assert (spec.learning_rate, spec.anneal_lr) == (1e-3, True)
    assert (spec.normalize_observations, spec.normalize_rewards) == (True, False)
    assert taken.not_taken == (
        "clip_range: lin_0.2 is a linear schedule; only its initial value is kept",
        "not in the config, sb3 defaults used: n_epochs 10",
        "keys without a counterpart: CartPole-v1.policy",
    )


def test_a_file_of_isaac_lab_and_what_cannot_be_said() -> None:
    taken = settings_from_config(ISAAC, "isaaclab", num_envs=25)
    spec = spec_of(taken.fields)
    assert (spec.seed, spec.hidden_sizes, spec.activation) == (42, (64, 32), "elu")
    assert (spec.normalize_observations, spec.clip_value, spec.normalize_advantages) == (True, True, "rollout")
    assert spec.max_grad_norm is None, "rl_games does not clip without truncate_grads"
    text = "\n".join(taken.not_taken)
    assert "params.network.rnn.name" in text
    assert "gamma: not in the config, 0.99 is used" in text
    assert "advantage normalization" not in text
    assert "shuffle: " in text


def test_the_plan_is_the_translation() -> None:
    taken = settings_from_config(ISAAC, "isaaclab:rl_games", num_envs=25)
    plan, expected = spec_of(taken.fields).plan(), translate(ISAAC, "isaaclab", "rollshape", num_envs=25).plan
    for name in ("num_envs", "num_steps", "minibatch_size", "num_epochs", "num_updates", "gradient_steps"):
        assert getattr(plan, name) == getattr(expected, name)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"policy_kwargs": "dict(net_arch=dict(pi=[8], vf=[16]))"}, "policy_kwargs"),
        ({"policy_kwargs": "dict(activation_fn=nn.LeakyReLU)"}, "policy_kwargs"),
        ({"policy_kwargs": "__import__('os').system('true')"}, "policy_kwargs"),
        ({"policy_kwargs": "dict(log_std_init=-2)"}, "policy_kwargs"),
        ({"normalize": "{'gamma': 0.9}"}, "normalize"),
        ({"seed": -1}, "seed"),
    ],
)
def test_values_that_cannot_be_expressed_are_listed(change: dict[str, Any], reported: str) -> None:
    taken = settings_from_config({"n_envs": 4, "n_steps": 8, "batch_size": 8, **change}, "sb3")
    assert any(line.startswith(f"{reported}: ") and "cannot be expressed" in line for line in taken.not_taken)
    spec_of(taken.fields)


def test_the_algorithm_is_that_of_the_config() -> None:
    config = {"CartPole-v1": {"n_envs": 16, "n_steps": 8, "n_timesteps": 1024, "policy_kwargs": {"net_arch": [8]}}}
    taken = settings_from_config(config, "sb3", file="hyperparams/a2c.yml")
    spec = spec_of(taken.fields)
    assert (spec.algo, spec.env, spec.hidden_sizes, spec.plan().minibatch_size) == ("a2c", "CartPole-v1", (8,), 128)
    assert any(line.startswith("RMSprop") for line in taken.not_taken)
    assert not any(line.startswith("clip_range") for line in taken.not_taken)


def test_recurrent_policies_are_listed() -> None:
    config = {"n_envs": 8, "n_steps": 16, "batch_size": 32, "policy": "MlpLstmPolicy"}
    taken = settings_from_config(config, "sb3")
    assert any("recurrent" in line for line in taken.not_taken)


def test_other_sizes_for_the_critic_are_listed() -> None:
    config = {"num_envs": 8, "num_steps_per_env": 24, "policy": {"actor_hidden_dims": [8], "critic_hidden_dims": [16]}}
    taken = settings_from_config(config, "rsl_rl")
    assert taken.fields["hidden_sizes"] == (8,)
    assert "policy.critic_hidden_dims: [16]; hidden_sizes (8,) is used for both" in taken.not_taken
    assert taken.fields["clip_value"] is True


def test_our_own_keys() -> None:
    config = {"env": "Pendulum-v1", "num_envs": 8, "num_steps": 16, "hidden_sizes": [8], "algo": "a2c", "junk": 1}
    taken = settings_from_config(config, "rollshape")
    spec = spec_of(taken.fields)
    assert (spec.env, spec.hidden_sizes, spec.algo, spec.max_grad_norm) == ("Pendulum-v1", (8,), "a2c", 0.5)
    assert taken.not_taken[-1] == "keys without a counterpart: junk"


def test_every_key_sets_fields_of_a_spec() -> None:
    samples: tuple[Any, ...] = (True, 3, "elu", "CartPole-v1", [8, 8], "RunningStandardScaler", {"net_arch": [8]})
    for keys in CONFIG_KEYS.values():
        for key in keys:
            converted = {}
            for sample in samples:
                try:
                    converted |= key.convert(sample)
                except ValueError:
                    continue
            assert converted, key.path
            spec_of(converted)
