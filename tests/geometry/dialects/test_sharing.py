"""Agents and processes: what each library's sizes mean when there are several of them."""

from typing import Any

import pytest

from rollshape import RequestError, fit_config, plan, translate
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.fit import fit
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read, write
from rollshape.geometry.dialects.sharing import Agents, Ranks, receive
from rollshape.geometry.plan import Plan

Config = dict[str, Any]
SMAC: Config = {
    "num_actors": 8, "horizon_length": 128, "minibatch_size": 1536, "mini_epochs": 4, "env_name": "smac",
    "env_config": {"name": "3m"}, "central_value_config": {"minibatch_size": 512},
}  # fmt: skip


def predicted(name: str, config: Config, **facts: Any) -> Plan:
    return predict(DIALECTS[name], read(config, DIALECTS[name], **facts).recipe)


@pytest.mark.parametrize(
    ("name", "agents"), [("3m", 3), ("2c_vs_64zg", 2), ("MMM2", 10), ("bane_vs_bane", 24), ("27m_vs_30m", 27)]
)
def test_a_smac_map_multiplies_the_rollout(name: str, agents: int) -> None:
    config = SMAC | {"env_config": {"name": name}, "minibatch_size": 64 * agents}
    result = predicted("rl_games", config)
    assert (result.num_agents, result.rollout_size, result.num_minibatches) == (agents, 1024 * agents, 16)
    assert fit_config(config, "rl_games", verbose=False) == config


def test_agents_that_no_table_knows_are_asked_for() -> None:
    config = SMAC | {"env_config": {"name": "my_map"}}
    with pytest.raises(RequestError, match="agents of the SMAC map 'my_map'; their number is unknown"):
        fit_config(config, "rl_games", verbose=False)
    assert predicted("rl_games", config, num_agents=6).rollout_size == 6 * 1024
    assert predicted("rl_games", config | {"env_config": {"name": "3m", "as_single_agent": True}}
                     | {"minibatch_size": 512}).num_agents == 1  # fmt: skip
    assert predicted("rl_games", SMAC | {"env_name": "multiwalker_env"}).num_agents == 3


def test_the_argument_overrides_the_file() -> None:
    result = predicted("rl_games", SMAC, num_agents=6)
    assert (result.num_agents, result.num_minibatches) == (6, 4)


def test_a_central_value_has_batches_without_the_agents() -> None:
    config = SMAC | {"central_value_config": {"minibatch_size": 768}}
    with pytest.raises(
        RequestError, match="central_value_config: the batch of 1024 is not divisible by its minibatch_size"
    ):
        predicted("rl_games", config)
    fitted = fit_config(config, "rl_games", verbose=False)
    assert fitted == config | {"central_value_config": {"minibatch_size": 1024}}


def test_agents_become_environments_elsewhere() -> None:
    result = translate(SMAC, "rl_games", "sb3")
    assert (result.config["n_envs"], result.config["batch_size"], result.plan.rollout_size) == (24, 1536, 3072)
    assert "num_agents: 3 in rl_games, 1 in sb3" in result.not_preserved
    with pytest.raises(RequestError, match="each agent counts as an environment"):
        translate({"n_envs": 4}, "sb3", "rl_games", num_agents=3)


def test_skrl_trains_each_agent_on_its_own() -> None:
    config = {"num_envs": 4, "agent": {"rollouts": 8, "mini_batches": 2}}
    assert predicted("skrl", config, num_agents=3) == predicted("skrl", config)


PER_RANK: dict[str, Config] = {
    "rl_games": {"num_actors": 64, "horizon_length": 16, "minibatch_size": 256, "mini_epochs": 4},
    "isaaclab:rl_games": {"params": {"config": {"horizon_length": 16, "minibatch_size": 256, "mini_epochs": 4}}},
    "rsl_rl": {"num_envs": 64, "num_steps_per_env": 16, "num_mini_batches": 4, "num_learning_epochs": 4},
    "skrl": {"num_envs": 64, "rollouts": 16, "mini_batches": 4, "learning_epochs": 4},
    "cleanrl_multigpu": {"local_num_envs": 64, "num_steps": 16, "num_minibatches": 4, "update_epochs": 4},
    "pufferlib": {"vec.num_envs": 64, "train.bptt_horizon": 16, "train.minibatch_size": 256, "train.update_epochs": 4},
}


@pytest.mark.parametrize("name", PER_RANK)
def test_sizes_per_process_are_multiplied(name: str) -> None:
    """64 environments and minibatches of 256 in each of 4 processes: one gradient step uses 1,024 samples."""
    envs = {"num_envs": 256} if name.startswith("isaaclab") else {}
    result = predicted(name, PER_RANK[name], world_size=4, **envs)
    assert (result.num_envs, result.rollout_size, result.minibatch_size) == (256, 4096, 1024)
    assert (result.num_minibatches, result.gradient_steps_per_update, result.world_size) == (4, 16, 4)
    assert result.to_dict()["num_envs_per_rank"] == 64
    assert result.to_dict()["minibatch_size_per_rank"] == 256


@pytest.mark.parametrize("name", PER_RANK)
def test_what_is_written_is_per_process(name: str) -> None:
    source = {"num_envs": 256, "num_steps_per_env": 16, "num_mini_batches": 4, "max_iterations": 10}
    result = translate(source, "rsl_rl", name, num_envs=256, world_size=4)
    assert result.plan.world_size == 4
    assert result.plan.num_envs == 256
    flat = {key.rpartition(".")[2]: value for key, value in _leaves(result.config)}
    assert 64 in flat.values()
    assert flat.get("minibatch_size", 256) == 256


def _leaves(config: Config, prefix: str = "") -> list[tuple[str, Any]]:
    nested = [(f"{prefix}{key}", value) for key, value in config.items()]
    return [
        leaf
        for key, value in nested
        for leaf in (_leaves(value, f"{key}.") if isinstance(value, dict) else [(key, value)])
    ]


def test_budgets_of_several_processes() -> None:
    rl_games = PER_RANK["rl_games"] | {"max_frames": 8192}  # counts the frames of all processes
    assert predicted("rl_games", rl_games, world_size=4).num_updates == 2
    puffer = PER_RANK["pufferlib"] | {"train.total_timesteps": 8192}  # of each process
    assert predicted("pufferlib", puffer, world_size=4).num_updates == 8
    skrl = PER_RANK["skrl"] | {"timesteps": 32}  # vector steps of each process
    assert predicted("skrl", skrl, world_size=4).actual_timesteps == 2 * 4096
    assert (
        predicted(
            "cleanrl_multigpu", PER_RANK["cleanrl_multigpu"] | {"total_timesteps": 8192}, world_size=4
        ).num_updates
        == 2
    )


def test_brax_and_stoix_divide_global_sizes() -> None:
    brax = {"num_envs": 64, "unroll_length": 5, "batch_size": 32, "num_minibatches": 4}
    assert predicted("brax", brax, world_size=4).minibatch_size == predicted("brax", brax).minibatch_size
    with pytest.raises(RequestError, match="batch_size 30 cannot be divided among 4 devices"):
        predicted("brax", brax | {"num_envs": 60, "batch_size": 30}, world_size=4)
    stoix = {"arch.total_num_envs": 64, "system.rollout_length": 3, "system.num_minibatches": 32}
    assert predicted("stoix", stoix).num_minibatches == 32
    with pytest.raises(RequestError, match="cannot reshape array of 48 samples"):
        predicted("stoix", stoix, world_size=4)  # 16 × 3 samples on each device
    slices = stoix | {"arch.update_batch_size": 4}
    with pytest.raises(RequestError, match="stoix rejects"):
        predicted("stoix", slices)
    fitted = fit_config(slices, "stoix", verbose=False)
    assert 64 * 3 // 4 % fitted["system.num_minibatches"] == 0


def test_learners_of_rllib() -> None:
    config = {
        "num_env_runners": 2,
        "num_envs_per_env_runner": 4,
        "train_batch_size_per_learner": 512,
        "minibatch_size": 64,
    }
    result = predicted("rllib", config | {"num_learners": 2})
    assert (result.world_size, result.rollout_size, result.minibatch_size) == (2, 1024, 128)
    assert predicted("rllib", config, world_size=2).rollout_size == 1024
    assert translate(config, "rllib", "rllib", world_size=2).config["num_learners"] == 2


def test_what_does_not_divide_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequestError, match="rsl_rl: 66 environments cannot be divided evenly among 4 processes") as no:
        fit(PER_RANK["rsl_rl"], "rsl_rl", num_envs=66, world_size=4)
    assert no.value.alternatives == [{"num_envs": 64}, {"num_envs": 68}]
    with pytest.raises(RequestError, match="sb3 trains in one process; 2 were requested"):
        fit({"n_envs": 4}, "sb3", world_size=2)
    with pytest.raises(RequestError, match="local_num_envs belongs to CleanRL's"):
        fit(PER_RANK["cleanrl_multigpu"], "cleanrl")


def test_one_process_takes_over_the_whole_batch() -> None:
    result = translate(PER_RANK["rl_games"], "rl_games", "sb3", world_size=4)
    assert (result.config["n_envs"], result.config["batch_size"]) == (256, 1024)
    assert "world_size: 4 in rl_games, 1 in sb3" in result.not_preserved
    divided = translate({"n_envs": 64, "n_steps": 16, "batch_size": 256}, "sb3", "rl_games", world_size=4)
    assert (divided.config["num_actors"], divided.config["minibatch_size"]) == (16, 64)
    assert divided.config["multi_gpu"] is True


@pytest.mark.parametrize(
    "name", [n for n, d in DIALECTS.items() if d.ranks is not Ranks.ONE or d.agents is Agents.MULTIPLY]
)
@pytest.mark.parametrize("num_envs", [12, 60, 96])
@pytest.mark.parametrize("world", [1, 2, 6])
@pytest.mark.parametrize("agents", [1, 3])
def test_a_written_config_is_read_back(name: str, num_envs: int, world: int, agents: int) -> None:
    source = {"num_actors": num_envs, "horizon_length": 20, "minibatch_size": 60, "mini_epochs": 2, "max_epochs": 3}
    recipe = read(source, DIALECTS["rl_games"], num_envs=num_envs, num_agents=agents, world_size=None).recipe
    dialect = DIALECTS[name]
    adapted = dialect.adapt(receive(dialect, type(recipe)(**{**vars(recipe), "world_size": world})))
    again = read(write(adapted, dialect), dialect, num_agents=adapted.num_agents, world_size=adapted.world_size).recipe
    for field in ("num_envs", "num_steps", "minibatch_size", "num_epochs", "num_agents", "world_size", "rollout_size"):
        assert getattr(again, field) == getattr(adapted, field), field
    assert dialect.problem(again) == ""
    assert again.minibatch_size % world == 0


def test_plan_with_processes_and_agents() -> None:
    result = plan(num_envs=4096, num_steps=24, world_size=4, num_minibatches=4)
    document = result.to_dict()
    assert (document["num_envs_per_rank"], document["minibatch_size_per_rank"], document["rollout_size_per_rank"]) == (
        1024, 6144, 24576,
    )  # fmt: skip
    assert Plan.from_dict(document) == result
    assert plan(num_envs_per_rank=1024, num_steps=24, world_size=4, minibatch_size_per_rank=6144).split == result.split
    with pytest.raises(RequestError, match="num_envs 4,097 cannot be divided evenly among 4 processes") as no:
        plan(num_envs=4097, num_steps=24, world_size=4, minibatch_size=1000)
    assert [plan(world_size=4, **near).world_size for near in no.value.alternatives] == [4, 4]
    three = plan(num_envs=8, num_steps=128, num_agents=3, total_timesteps=30720)
    assert (three.rollout_size, three.num_updates) == (3072, 10)
    with pytest.raises(RequestError, match="num_envs_per_rank 3 × world_size 2 = 6, but num_envs = 8"):
        plan(num_envs=8, num_envs_per_rank=3, world_size=2)
    with pytest.raises(RequestError, match="world_size belongs to on-policy algorithms"):
        plan(algo="rrd", world_size=2)


def test_what_the_config_leaves_open_is_reported() -> None:
    finding = next(f for f in predicted("rl_games", PER_RANK["rl_games"] | {"multi_gpu": True}).findings)
    assert "these are the sizes of one process" in finding.message
    notes = translate(PER_RANK["rsl_rl"], "rsl_rl", "skrl", world_size=4).notes
    assert any("torchrun --nproc_per_node 4" in note for note in notes)
    with pytest.raises(RequestError, match="does not know how rllib divides the sequences"):
        predicted("rllib", {"train_batch_size_per_learner": 512, "model": {"use_lstm": True}})
