"""Every config is read as the algorithm that it is for, or refused by its name."""

from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, fit, translate
from rollshape.geometry.dialects.families import VOCABULARY

PPO_CLASS = {"num_envs": 8, "num_steps_per_env": 16, "algorithm": {"class_name": "PPO", "num_mini_batches": 4}}
RL_GAMES = {"num_actors": 16, "horizon_length": 8, "minibatch_size": 32, "mini_epochs": 2}
ZOO = {"CartPole-v1": {"n_envs": 8, "n_timesteps": 1e5, "policy": "MlpPolicy"}}
TUNED = {"env": "CartPole-v1", "config": {"num_workers": 2, "train_batch_size": 400, "sgd_minibatch_size": 100}}


@pytest.mark.parametrize(
    ("dialect", "config", "file", "title"),
    [
        ("rllib_old", {"cartpole": {**TUNED, "run": "APPO"}}, None, "APPO"),
        ("rllib_old", {"cartpole": {**TUNED, "run": "CQL"}}, None, "CQL"),
        ("stoix", {"system_name": "ff_qr_dqn", "rollout_length": 8}, None, "QR-DQN"),
        ("stoix", {"arch": {"total_num_envs": 8}, "system": {"system_name": "ff_mz", "epochs": 2}}, None, "MuZero"),
        ("rl_games", {"params": {"algo": {"name": "sac"}, "config": {"num_actors": 8, "batch_size": 64}}}, None, "SAC"),
        ("isaaclab", {"params": {"algo": {"name": "amp_continuous"}, "config": RL_GAMES}}, None, "AMP"),
        ("skrl", {"num_envs": 4, "agent": {"class": "AMP", "rollouts": 16}}, None, "AMP"),
        ("rsl_rl", PPO_CLASS | {"algorithm": {"class_name": "Distillation"}}, None, "Distillation"),
        ("torchrl", {"collector": {"frames_per_batch": 80}}, "sota-implementations/impala/config.yaml", "IMPALA"),
        ("torchrl", {"logger": {"project_name": "torchrl_example_dqn"}, "env": {"num_envs": 1}}, None, "DQN"),
        ("rejax", {"sac": {"num_envs": 4, "num_epochs": 2}}, None, "SAC"),
        ("cleanrl", {"exp_name": "td3_continuous_action", "num_envs": 1}, None, "TD3"),
        ("sb3", ZOO, "hyperparams/trpo.yml", "TRPO"),
        ("sb3", ZOO, "ars.yml", "ARS"),
        ("sb3", {"Ant-v4": {"n_envs": 1, "n_delta": 8}}, "-", "ARS"),
        ("sb3", {"Ant-v4": {"n_envs": 1, "cg_damping": 0.1}}, None, "TRPO"),
        ("sb3", {"algo": "tqc", "n_envs": 1}, None, "TQC"),
        ("dopamine", {"create_agent.agent_name": "rainbow", "batch_size": 32}, None, "Rainbow"),
        ("baselines_ppo2", {"alg": "trpo_mpi", "nsteps": 128}, None, "TRPO"),
        ("rollshape", {"algo": "sac", "num_envs": 4, "num_steps": 1}, None, "SAC"),
    ],
)
def test_another_algorithm_is_refused_by_its_name(dialect: str, config: Any, file: str | None, title: str) -> None:
    for function in (lambda: translate(config, dialect, "sb3", file=file), lambda: fit(config, dialect, file=file)):
        with pytest.raises(RequestError, match=f"this is {title}; Rollshape plans ") as caught:
            function()
        assert caught.value.rule == "family"


@pytest.mark.parametrize(
    ("dialect", "config"),
    [
        ("rllib_old", {"cartpole": {**TUNED, "run": "PPO"}}),
        ("stoix", {"system_name": "ff_ppo", "rollout_length": 8}),
        ("rl_games", {"params": {"algo": {"name": "a2c_discrete"}, "config": RL_GAMES}}),
        ("skrl", {"num_envs": 4, "agent": {"class": "PPO", "rollouts": 16}}),
        ("skrl", {"num_envs": 4, "agent": {"class": "MAPPO", "rollouts": 16}}),
        ("rsl_rl", PPO_CLASS),
        ("rsl_rl", PPO_CLASS | {"algorithm": {"class_name": "my_package.algorithms:MyPPOWithSymmetry"}}),
        ("rejax", {"ppo": {"num_envs": 4}, "sac": {"num_envs": 4, "num_epochs": 2}}),
        ("cleanrl", {"exp_name": "ppo_rnd_envpool", "num_envs": 8}),
        ("sample_factory", {"algo": "APPO", "num_workers": 1, "async_rl": False, "batch_size": 64}),
        ("torchrl", {"ppo": {"collector": {"frames_per_batch": 2048}}, "gail": {"lr": 0.1}}),
    ],
)
def test_ppo_is_planned_and_its_name_is_no_loss(dialect: str, config: Any) -> None:
    result = translate(config, dialect, "sb3")
    assert result.plan.algo == "ppo"
    assert not any("algorithm" in note for note in result.notes)
    names = ("run:", "system_name:", "params.algo", "class:", "class_name:", "algo:")
    assert not any(line.startswith(names) or f".{names[0]}" in line for line in result.not_preserved)


def test_the_assumption_is_reported() -> None:
    note = "the config does not name its algorithm: read as PPO"
    assert note in translate({"n_envs": 8}, "sb3", "cleanrl").notes
    assert note in fit({"n_envs": 8}, "sb3").notes
    named = translate({"n_envs": 8}, "sb3", "cleanrl", file="hyperparams/ppo.yml").notes
    assert "algorithm: PPO, from the file name ppo" in named


def test_the_dialect_follows_the_algorithm() -> None:
    a2c = translate(ZOO, "sb3", "rollshape", file="hyperparams/a2c.yml")
    assert (a2c.plan.algo, a2c.plan.num_steps, a2c.plan.gradient_steps_per_update) == ("a2c", 5, 1)
    assert a2c.config == {**a2c.config, "algo": "a2c", "num_envs": 8, "num_steps": 5}
    assert translate(ZOO, "sb3", "rollshape", file="ppo.yml").plan.num_steps == 2048
    recurrent = {"PendulumNoVel-v1": {"n_envs": 4, "policy": "MlpLstmPolicy"}}
    assert translate(recurrent, "sb3", "rollshape").plan.num_steps == 128
    assert translate(ZOO, "sb3", "sb3", file="ppo_lstm.yml").plan.num_steps == 128
    script = {"collector": {"frames_per_batch": 640}, "logger": {"project_name": "torchrl_example_a2c"}}
    assert translate(script, "torchrl", "rollshape").plan.algo == "a2c"
    assert translate({"n_envs": 8, "use_rms_prop": True}, "sb3", "rollshape").plan.algo == "a2c"
    with pytest.raises(RequestError, match="this is A2C"):
        translate({"n_envs": 8, "use_rms_prop": True}, "sb3:ppo", "rollshape")
    with pytest.raises(
        RequestError, match="this is PPO; Rollshape plans PPO, A2C and RecurrentPPO of sb3:a2c"
    ) as caught:
        translate(ZOO, "sb3:a2c", "rollshape", file="ppo.yml")
    assert "The dialect sb3 plans it" in caught.value.fix


def test_a_name_that_is_not_known_is_refused_where_it_decides() -> None:
    with pytest.raises(RequestError, match="run: Zebra is not an algorithm that Rollshape knows"):
        translate({"cartpole": {**TUNED, "run": "Zebra"}}, "rllib_old", "sb3")
    assert translate({"exp_name": "zebra", "num_envs": 4}, "cleanrl", "sb3").plan.algo == "ppo"
    assert translate({"n_envs": 4}, "sb3", "cleanrl", file="my_experiment_7.yaml").plan.algo == "ppo"
    assert translate({"n_envs": 4}, "sb3", "cleanrl", file="she_and_her.yaml").plan.algo == "ppo"


def test_a2c_is_ppo_with_one_epoch_and_one_minibatch_elsewhere() -> None:
    there = translate({"n_envs": 16, "n_steps": 8, "n_timesteps": 1280}, "sb3:a2c", "cleanrl")
    assert (there.config["num_minibatches"], there.config["update_epochs"]) == (1, 1)
    assert there.not_preserved[0] == "algorithm: a2c in sb3:a2c, ppo in cleanrl"
    back = translate({"n_envs": 16, "n_steps": 8, "n_epochs": 4}, "sb3", "sb3:a2c").not_preserved
    assert "num_epochs: 4 in sb3, 1 in sb3:a2c" in back
    assert "minibatch_size: 64 in sb3, 128 in sb3:a2c" in back


def test_recurrent_ppo_never_gets_a_minibatch_of_one_sample() -> None:
    config = {"n_envs": 3, "n_steps": 3, "batch_size": 4}
    assert translate(config, "sb3", "sb3:recurrent_ppo").plan.last_minibatch_size > 1
    with pytest.raises(RequestError, match="single advantage is NaN"):
        translate(config, "sb3:recurrent_ppo", "sb3")
    for rollout in range(2, 40):
        for size in range(1, rollout + 2):
            config = {"n_envs": 1, "n_steps": rollout, "batch_size": max(2, size)}
            assert translate(config, "sb3", "sb3:recurrent_ppo").plan.last_minibatch_size > 1


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_dialect_plans_known_names(name: str) -> None:
    dialect = DIALECTS[name]
    assert dialect.algorithm_names <= set(VOCABULARY)
    assert any(VOCABULARY[known] == dialect.algorithm for known in dialect.algorithm_names)


def test_keys_beside_the_algorithm_are_not_hidden() -> None:
    config = {"num_envs": 8, "num_steps_per_env": 16, "algorithm": {"class_name": "PPO", "rnd_cfg": 1}}
    assert "algorithm.rnd_cfg: no counterpart in sb3" in translate(config, "rsl_rl", "sb3").not_preserved


def test_keys_of_off_policy_algorithms_are_the_last_resort() -> None:
    with pytest.raises(RequestError, match="off-policy \\(buffer_size, learning_starts\\)"):
        translate({"NUM_ENVS": 4, "BUFFER_SIZE": 100, "LEARNING_STARTS": 10}, "purejaxrl", "sb3")
    with pytest.raises(RequestError, match="off-policy"):
        translate({"n_envs": 4, "buffer_size": 100, "train_freq": 1}, "sb3", "cleanrl", file="ppo.yml")
    with pytest.raises(RequestError, match="off-policy"):
        translate({"num_envs": 4, "min_replay_size": 100, "grad_updates_per_step": 10}, "brax", "sb3")
