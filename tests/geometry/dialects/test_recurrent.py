"""Rules of recurrent policies: each oracle is a copy of a library's own check, and knows nothing of our code."""

from collections.abc import Callable
from typing import Any

import pytest

from rollshape import RequestError, fit_config, plan, translate
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.fit import fit
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read

Config = dict[str, Any]
LSTM = {"name": "lstm", "units": 8, "layers": 1}


def agent_file(
    num_envs: int, steps: int, size: int, length: int, agents: int = 1, central: int | None = None
) -> Config:
    config: Config = {"num_actors": num_envs, "horizon_length": steps, "minibatch_size": size, "seq_length": length}
    config |= {"mini_epochs": 2, "max_epochs": 10, "env_name": "smac" if agents == 3 else "lander"}
    config |= {"env_config": {"name": "3m"}}
    if central:
        config["central_value_config"] = {"minibatch_size": central, "network": {"rnn": LSTM}}
    return {"params": {"network": {"name": "actor_critic", "rnn": LSTM}, "config": config}}


def rl_games_trains(file: Config, num_envs: int, agents: int = 1) -> bool:
    """Return whether rl_games 1.6.5 trains: A2CBase.__init__, CentralValueTrain, PPODataset, init_tensors."""
    config = file["params"]["config"]
    horizon, size, length = config["horizon_length"], config["minibatch_size"], config["seq_length"]
    batch_size = horizon * num_envs * agents
    if batch_size % size or batch_size % length:
        return False
    if "central_value_config" in config:
        central, batch = config["central_value_config"]["minibatch_size"], horizon * num_envs
        if batch % central or batch % length or (batch // (batch // central)) % length:
            return False
    num_minibatches = batch_size // size
    fits = (horizon * num_envs * agents // num_minibatches) % length == 0
    return fits and -(-horizon // length) <= horizon // length  # one slot of the stored states per started sequence


@pytest.mark.parametrize(
    ("steps", "size", "length", "agents", "central"),
    [(128, 512, 128, 1, None), (32, 512, 16, 1, 512), (16, 1024, 8, 3, 64), (24, 256, 10, 1, None)],
    ids=["factory", "central value", "three agents", "24 steps of 10"],
)
def test_rl_games_trains_on_every_fitted_file(
    steps: int, size: int, length: int, agents: int, central: int | None
) -> None:
    for num_envs in range(1, 400):
        file = agent_file(64, steps, size, length, agents, central)
        fitted = fit_config(file, "rl_games", num_envs, verbose=False)
        assert rl_games_trains(fitted, num_envs, agents)
        file["params"]["config"]["num_actors"] = num_envs
        if rl_games_trains(file, num_envs, agents):
            assert fitted == file
        else:
            with pytest.raises(RequestError, match=r"rl_games rejects .*Error: "):
                predict(DIALECTS["rl_games"], read(file, DIALECTS["rl_games"]).recipe)


def test_rl_games_is_quoted() -> None:
    with pytest.raises(
        RequestError, match=r"Horizon length \(16\) times total agents \(6\) divided by num minibatches"
    ) as no:
        translate(agent_file(6, 16, 24, 16), "rl_games", "rsl_rl")
    assert no.value.alternatives == [{"horizon_length": 16, "minibatch_size": 32, "seq_length": 16}]
    with pytest.raises(RequestError, match="IndexError: horizon_length 24 is not a multiple of seq_length 16"):
        translate(agent_file(4, 24, 48, 16), "rl_games", "rsl_rl")


def test_without_a_recurrent_network_only_the_rollout_counts() -> None:
    file = agent_file(6, 16, 24, 16)
    del file["params"]["network"]["rnn"]
    assert fit_config(file, "rl_games", verbose=False) == file


def environments_divide(config: Config, num_envs: int) -> bool:
    """CleanRL ppo_atari_lstm.py and Baselines PPO2: assert num_envs % num_minibatches == 0."""
    return num_envs % (config.get("num_minibatches") or config.get("nminibatches") or config["NUM_MINIBATCHES"]) == 0


def stoix_divides(config: Config, num_envs: int) -> bool:
    """Stoix rec_ppo: chunks of recurrent_chunk_size steps (default: all), reshaped into num_minibatches."""
    chunk = config.get("system.recurrent_chunk_size") or config["system.rollout_length"]
    chunks = num_envs * (config["system.rollout_length"] // chunk)
    return config["system.rollout_length"] % chunk == 0 and chunks % config["system.num_minibatches"] == 0


STOIX = {"arch.total_num_envs": 64, "system.rollout_length": 12, "system.num_minibatches": 8}
RECURRENT: list[tuple[str, Config, Callable[[Config, int], bool]]] = [
    (
        "cleanrl",
        {"num_envs": 8, "num_steps": 12, "num_minibatches": 4, "exp_name": "ppo_atari_lstm"},
        environments_divide,
    ),
    ("baselines_ppo2", {"num_env": 8, "nsteps": 12, "nminibatches": 4, "network": "cnn_lstm"}, environments_divide),
    ("stoix", STOIX | {"system.system_name": "rec_ppo"}, stoix_divides),
    ("stoix", STOIX | {"system.recurrent_chunk_size": 4}, stoix_divides),
    ("stoix", STOIX | {"system.recurrent_chunk_size": 5}, stoix_divides),
]


@pytest.mark.parametrize(("name", "config", "trains"), RECURRENT)
def test_minibatches_of_whole_environments(name: str, config: Config, trains: Callable[[Config, int], bool]) -> None:
    for num_envs in range(1, 400):
        fitted = fit_config(config, name, num_envs, verbose=False)
        assert trains(fitted, num_envs)
        if trains(config, num_envs):
            assert fit(config, name, num_envs=num_envs).reason == ""
        else:
            with pytest.raises(RequestError):
                predict(DIALECTS[name], read(config, DIALECTS[name], num_envs=num_envs).recipe)


def test_the_flag_says_what_a_config_cannot() -> None:
    config = {"NUM_ENVS": 6, "NUM_STEPS": 8, "NUM_MINIBATCHES": 4}
    assert fit_config(config, "purejaxrl", verbose=False) == config
    assert fit_config(config, "purejaxrl", verbose=False, recurrent=True)["NUM_MINIBATCHES"] == 3
    with pytest.raises(RequestError, match="does not know how brax divides the sequences"):
        fit_config({"num_envs": 4, "unroll_length": 5}, "brax", verbose=False, recurrent=True)


@pytest.mark.parametrize(
    "policy",
    [
        {"policy": {"class_name": "ActorCriticRecurrent", "rnn_type": "lstm"}},
        {"actor": {"class_name": "RNNModel"}, "critic": {"class_name": "MLPModel"}},
        {"runner": {"policy_class_name": "ActorCriticRecurrent"}},
    ],
)
def test_rsl_rl_leaves_whole_environments_out(policy: Config) -> None:
    config = {"num_envs": 10, "num_steps_per_env": 24, "algorithm": {"num_mini_batches": 4}, **policy}
    recipe = read(config, DIALECTS["rsl_rl"]).recipe
    result = predict(DIALECTS["rsl_rl"], recipe)
    assert (result.minibatch_size, result.num_minibatches, result.dropped) == (2 * 24, 4, 2 * 24)
    assert "all steps of environments 8…9" in result.findings[0].message
    assert fit_config(config, "rsl_rl", verbose=False)["algorithm"]["num_mini_batches"] == 5
    with pytest.raises(RequestError, match="4 minibatches of 3 whole environments would be empty"):
        predict(DIALECTS["rsl_rl"], read(config, DIALECTS["rsl_rl"], num_envs=3).recipe)


def skrl_trains(num_envs: int, rollouts: int, count: int, length: int) -> bool:
    """np.array_split over all steps, then view(-1, sequence_length); no sequence spans two environments."""
    sizes = [num_envs * rollouts // count + (i < num_envs * rollouts % count) for i in range(count)]
    return all(size % length == 0 and size for size in sizes) and rollouts % length == 0


def test_skrl_needs_equal_minibatches_of_whole_sequences() -> None:
    config = {"agent": {"class": "PPO_RNN", "rollouts": 24, "mini_batches": 4}}
    for num_envs in range(1, 400):
        fitted = fit_config(config, "skrl", num_envs, verbose=False, seq_length=8)
        assert skrl_trains(num_envs, 24, fitted["agent"]["mini_batches"], 8)
        if skrl_trains(num_envs, 24, 4, 8):
            assert fitted == {**config, "num_envs": num_envs} or fitted == config
    with pytest.raises(RequestError, match="get_specification"):
        fit_config(config, "skrl", 8, verbose=False)
    with pytest.raises(RequestError, match="would continue into the next environment"):
        predict(DIALECTS["skrl"], read(config, DIALECTS["skrl"], num_envs=16, seq_length=16).recipe)


def test_a_translation_keeps_whole_sequences() -> None:
    result = translate(agent_file(12, 16, 48, 8), "rl_games", "cleanrl")
    assert (result.plan.seq_length, result.config["num_minibatches"]) == (16, 4)
    assert "seq_length: 8 in rl_games, 16 in cleanrl" in result.not_preserved
    assert translate(agent_file(12, 16, 48, 8), "rl_games", "rl_games").config["seq_length"] == 8
    lost = translate(agent_file(12, 16, 48, 8), "rl_games", "sb3")
    assert lost.plan.seq_length is None
    assert "seq_length: 8 in rl_games, none in sb3" in lost.not_preserved


def test_plan_of_a_recurrent_policy() -> None:
    result = plan(num_envs=48, num_steps=32, recurrent=True, seq_length=16)
    assert (result.seq_length, result.minibatch_size % 16, result.rollout_size % result.minibatch_size) == (16, 0, 0)
    assert plan(num_envs=48, num_steps=32, recurrent=True).seq_length == 32
    assert plan(num_envs=48, num_steps=32).to_dict()["seq_length"] is None
    assert "24 of the 96 sequences of 16 steps" in next(f.message for f in result.findings if f.rule == "recurrent")
    with pytest.raises(RequestError, match="num_steps 32 is not a multiple of seq_length 12") as no:
        plan(num_envs=48, num_steps=32, seq_length=12, minibatch_size=100)
    assert [plan(**{"seq_length": 12, **near}).num_steps for near in no.value.alternatives] == [24, 36]
    with pytest.raises(RequestError, match="minibatch_size 100 is not a multiple of sequences of 32 steps"):
        plan(num_envs=48, num_steps=32, recurrent=True, minibatch_size=100)
