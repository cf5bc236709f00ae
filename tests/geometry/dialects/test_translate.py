"""There and back is the identity on what both libraries can say."""

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS, NAMES, fit, translate
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read, write
from rollshape.geometry.dialects.recipe import Recipe
from rollshape.geometry.divisors import divisors
from rollshape.geometry.plan import Plan

RECURRENT = "sb3:recurrent_ppo"
SHAPE = ("num_envs", "num_steps", "gae_window", "rollout_size", "minibatch_size", "num_epochs", "num_updates")
names = st.sampled_from(sorted(DIALECTS))


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    num_envs, num_steps = draw(st.integers(1, 64)), draw(st.integers(2, 256))
    rollout = num_envs * num_steps
    size = draw(st.sampled_from([d for d in divisors(rollout) if d > 1]))
    updates = draw(st.integers(1, 300))
    rates = st.sampled_from([1e-4, 2.5e-4, 3e-4, 1e-3, 0.015])
    hyper = {
        "learning_rate": draw(rates),
        "gamma": draw(st.sampled_from([0.9, 0.97, 0.99, 0.995])),
        "gae_lambda": draw(st.sampled_from([0.9, 0.95, 1.0])),
        "clip_range": draw(st.sampled_from([0.1, 0.2, 0.3])),
        "entropy_coef": draw(st.sampled_from([0.0, 0.01])),
        "value_coef": draw(st.sampled_from([0.25, 0.5, 1.0, 2.0])),
        "max_grad_norm": draw(st.sampled_from([0.5, 1.0])),
    }
    hyper |= draw(st.sampled_from([{}, {"target_kl": 0.03}, {"adaptive_kl": 0.008}]))
    return Recipe(
        num_envs=num_envs, num_steps=num_steps, minibatch_size=size, num_minibatches=rollout // size,
        num_epochs=draw(st.integers(1, 10)), gae_window=num_steps, total_timesteps=updates * rollout,
        num_updates=updates, hyper=hyper,
    )  # fmt: skip


def shape(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in SHAPE}


@settings(max_examples=1_500, deadline=None)
@given(recipes(), names)
def test_write_then_read_is_the_identity(recipe: Recipe, name: str) -> None:
    dialect = DIALECTS[name]
    adapted = dialect.adapt(recipe)
    again = read(write(adapted, dialect), dialect).recipe
    assert adapted.rollout_size == recipe.rollout_size, "a rollout never changes its size"
    for field in ("num_envs", "num_steps", "gae_window", "minibatch_size", "num_epochs", "num_updates"):
        assert getattr(again, field) == getattr(adapted, field), field
    said = {key.concept for key in dialect.hyper_keys}
    for concept in said & set(recipe.hyper):
        assert again.hyper[concept] == pytest.approx(recipe.hyper[concept], rel=1e-9)


@settings(max_examples=1_500, deadline=None)
@given(recipes(), names, names)
def test_there_and_back(recipe: Recipe, here: str, there: str) -> None:
    assume((here == RECURRENT) == (there == RECURRENT))  # else the policy becomes recurrent, and minibatches with it
    start = write(DIALECTS[here].adapt(recipe), DIALECTS[here])
    going = translate(start, here, there)
    coming = translate(going.config, there, here)
    before, after = predict(DIALECTS[here], read(start, DIALECTS[here]).recipe), coming.plan
    assume(before.algo == going.plan.algo)  # A2C of one library has minibatches, that of another has none
    assert before.num_updates == after.num_updates
    assert before.rollout_size == after.rollout_size
    lossless = not any(line.split(":")[0] in SHAPE for line in going.not_preserved)
    if lossless:
        assert shape(before) == shape(after)
        both = {key.concept for key in DIALECTS[here].hyper_keys} & {key.concept for key in DIALECTS[there].hyper_keys}
        first, last = (read(config, DIALECTS[here]).recipe.hyper for config in (start, coming.config))
        for concept in both & set(recipe.hyper) & set(first):
            assert last[concept] == pytest.approx(first[concept], rel=1e-9), concept
    if "pufferlib4" in (here, there) and not lossless:
        return  # its minibatches are multiples of T: if T changes on the way, they are rounded a second time
    again = translate(coming.config, here, there)
    assert again.config == going.config, "after the first loss nothing more is lost"


def test_every_pair_translates() -> None:
    config = {"n_envs": 8, "n_steps": 128, "batch_size": 64, "n_epochs": 10, "n_timesteps": 100_000}
    for source, target in product(DIALECTS, DIALECTS):
        there = translate(config, "sb3", source).config
        plan = translate(there, source, target).plan
        assert plan.rollout_size == 1024
        assert plan.num_updates == 98


def test_sb3_to_rl_games_in_numbers() -> None:
    result = translate(
        {"n_envs": 8, "n_steps": 128, "batch_size": 64, "n_epochs": 10, "n_timesteps": 1e5, "policy": "MlpPolicy"},
        "sb3", "rl_games",
    )  # fmt: skip
    assert result.config["num_actors"] == 8
    assert result.config["horizon_length"] == 128
    assert result.config["minibatch_size"] == 64
    assert result.config["mini_epochs"] == 10
    assert result.config["max_epochs"] == 98  # SB3 rounds 100,000 / 1,024 up
    assert result.config["critic_coef"] == 1.0  # SB3's 0.5·mse is rl_games' ½·1.0·mse
    assert result.config["truncate_grads"] is True  # without it grad_norm does nothing
    assert result.plan.gradient_steps == 98 * 10 * 16
    lost = "\n".join(result.not_preserved)
    for word in ("policy: no counterpart", "shuffle", "advantage normalization", "time limit", "changed to 100,352"):
        assert word in lost


def test_the_value_coefficient_is_compared_as_a_factor_on_the_squared_error() -> None:
    def coefficient(target: str, key: str) -> float:
        value = translate({"n_envs": 4, "n_steps": 8, "vf_coef": 0.5}, "sb3", target).config[key]
        return float(value)

    assert coefficient("cleanrl", "vf_coef") == 1.0
    assert coefficient("rsl_rl", "value_loss_coef") == 0.5
    assert coefficient("skrl", "value_loss_scale") == 0.5
    assert coefficient("brax", "vf_loss_coefficient") == 1.0


def test_target_kl_is_compared_as_the_threshold_that_stops() -> None:
    config = {"n_envs": 4, "n_steps": 32, "target_kl": 0.02}
    assert translate(config, "sb3", "cleanrl").config["target_kl"] == pytest.approx(0.03)  # SB3 stops at 1.5 times
    assert any("target_kl 0.03" in line for line in translate(config, "sb3", "rl_games").not_preserved)


def test_brax_keeps_rollout_minibatch_and_epochs_and_changes_the_window() -> None:
    result = translate({"n_envs": 8, "n_steps": 128, "batch_size": 64, "n_epochs": 3}, "sb3", "brax")
    assert result.config["unroll_length"] == 64
    assert result.config["batch_size"] * result.config["unroll_length"] == 64
    assert (result.plan.rollout_size, result.plan.minibatch_size, result.plan.num_epochs) == (1024, 64, 3)
    assert "gae_window: 128 in sb3, 64 in brax" in result.not_preserved
    with pytest.raises(RequestError, match="cannot express this shape: gae_window") as caught:
        translate({"n_envs": 8, "n_steps": 128, "batch_size": 64}, "sb3", "brax", strict=True)
    assert caught.value.rule == "strict"


def test_playgrounds_evaluations_lengthen_the_run() -> None:
    config = {
        "num_timesteps": 60_000_000, "num_envs": 2048, "unroll_length": 30, "batch_size": 1024, "num_minibatches": 32,
        "num_updates_per_batch": 16, "num_evals": 10, "num_resets_per_eval": 10,
    }  # fmt: skip
    result = translate(config, "brax", "rollshape")
    assert result.plan.num_updates == 90
    assert result.plan.actual_timesteps == 88_473_600  # half as much again as was asked for
    assert result.config["num_steps"] == 480
    assert "gae_window: 30 in brax, 480 in rollshape" in result.not_preserved


def test_stoix_rounds_down_twice_and_rejax_up_twice() -> None:
    assert translate({"arch.total_num_envs": 1024}, "stoix", "cleanrl").plan.num_updates == 60  # of 76
    config = {"num_envs": 2048, "num_steps": 64, "total_timesteps": 1_000_000}
    assert translate(config, "rejax", "cleanrl").plan.num_updates == 245  # of 7.6, for eval_freq is 4096


def test_rllib_counts_a_masked_row_for_each_environment() -> None:
    config = {"num_env_runners": 0, "num_envs_per_env_runner": 4, "train_batch_size_per_learner": 32,
              "minibatch_size": 10, "num_epochs": 2}  # fmt: skip
    plan = translate(config, "rllib", "rllib").plan
    assert plan.gradient_steps_per_update == 8  # ceil(2·36/10), not ceil(64/10)
    whole = translate(config | {"minibatch_size": None}, "rllib", "rllib")
    assert whole.plan.gradient_steps_per_update == 2
    assert whole.config["minibatch_size"] is None


def test_rsl_rl_names_the_samples_that_it_never_trains_on() -> None:
    config = {"num_envs": 5, "num_steps_per_env": 3, "num_mini_batches": 4}
    finding = translate(config, "rsl_rl", "rsl_rl").plan.findings[0]
    assert finding.rule == "remainder"
    assert "step 2 of environments 2…4" in finding.message


def test_a_config_that_its_own_library_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(RequestError, match="must be divisible by 'minibatch_size' \\(7\\)") as caught:
        translate({"num_actors": 4, "horizon_length": 5, "minibatch_size": 7, "mini_epochs": 2}, "rl_games", "sb3")
    assert caught.value.alternatives == [{"horizon_length": 5, "minibatch_size": 5, "seq_length": 4}]
    with pytest.raises(RequestError, match="sequence length"):
        translate({"num_actors": 3, "horizon_length": 5, "minibatch_size": 5, "mini_epochs": 2}, "rl_games", "sb3")


@pytest.mark.parametrize(
    ("dialect", "config"),
    [
        ("sb3", {"n_envs": 4, "n_steps": 8, "batch_size": 1}),
        ("rl_games", {"num_actors": 3, "horizon_length": 5, "minibatch_size": 5, "mini_epochs": 1}),
        ("brax", {"num_envs": 3, "unroll_length": 5, "batch_size": 7, "num_minibatches": 2}),
        ("torchrl", {"num_envs": 3, "frames_per_batch": 2048, "mini_batch_size": 64}),
        ("pufferlib", {"vec.num_envs": 8, "train.bptt_horizon": 64, "train.minibatch_size": 100}),
    ],
)
def test_what_a_refusal_offers_is_taken(dialect: str, config: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        translate(config, dialect, "rollshape")
    names = {name.rpartition(".")[2]: name for name in config}
    offered = {names.get(name, name): value for name, value in caught.value.alternatives[0].items()}
    assert translate({**config, **offered}, dialect, "rollshape").plan.rollout_size > 1


def test_losses_that_no_key_shows_are_listed() -> None:
    lost = "\n".join(translate({"n_envs": 8, "n_steps": 128}, "sb3", "cleanrl").not_preserved)
    assert "learning-rate schedule: sb3: constant unless configured; cleanrl: linear to zero" in lost
    assert "value loss" in lost
    lost = "\n".join(translate({"num_envs_per_env_runner": 8}, "rllib", "sb3").not_preserved)
    assert "KL penalty" in lost


def test_rollshapes_own_words_are_planned() -> None:
    assert translate({"num_envs": 64, "num_steps": 32}, "rollshape", "sb3").config["batch_size"] == 512
    by_count = {"num_envs": 64, "num_steps": 32, "num_minibatches": 8}
    assert translate(by_count, "rollshape", "sb3").config["batch_size"] == 256


def test_rl_games_gets_a_sequence_length_that_divides() -> None:
    result = translate({"n_envs": 3, "n_steps": 5, "batch_size": 5}, "sb3", "rl_games")
    assert result.config["seq_length"] == 1


def test_zero_updates_in_a_library_that_rounds_down() -> None:
    with pytest.raises(RequestError) as caught:
        translate({"num_envs": 8, "num_steps": 128, "total_timesteps": 1000}, "cleanrl", "sb3")
    assert caught.value.rule == "zero-updates"


def test_nothing_that_is_equal_is_listed_as_not_preserved() -> None:
    start = {"n_envs": 8, "n_steps": 128, "batch_size": 64, "n_timesteps": 100_000, "learning_rate": 1 / 3000}
    for source, target in product(DIALECTS, DIALECTS):
        for line in translate(translate(start, "sb3", source).config, source, target).not_preserved:
            changed = re.fullmatch(r".*: (.+) in \S+, (.+) in \S+", line)
            behavior = re.fullmatch(rf"[\w -]+: {source}: (.+); {target}: (.+)", line)
            fixed = re.fullmatch(r"\w+ (\S+): fixed at (\S+) in .*", line)
            for match in filter(None, (changed, behavior, fixed)):
                old, new = (re.sub(r" \(.*|^always ", "", text) for text in match.groups())
                assert old != new, line


def test_switches_in_the_config_change_what_is_reported() -> None:
    def lost(config: dict[str, Any], source: str, target: str) -> str:
        return "\n".join(translate(config, source, target).not_preserved)

    cleanrl = {"num_envs": 4, "anneal_lr": False, "clip_vloss": False}
    assert "learning-rate schedule" not in lost(cleanrl, "cleanrl", "sb3")
    assert "value loss" not in lost(cleanrl, "cleanrl", "sb3")
    assert "learning-rate schedule: cleanrl: linear to zero" in lost({"num_envs": 4}, "cleanrl", "sb3")
    assert "learning-rate schedule" not in lost({"num_envs": 4}, "cleanrl", "purejaxrl")  # ANNEAL_LR is anneal_lr


def test_value_bootstrap_of_rl_games() -> None:
    config = {"num_actors": 8, "horizon_length": 16, "minibatch_size": 32, "mini_epochs": 2}
    off = translate(config | {"value_bootstrap": False}, "rl_games", "sb3").not_preserved
    assert any(line.startswith("time limit: rl_games: treated as termination, no bootstrapping; sb3:") for line in off)
    on = translate(config | {"value_bootstrap": True}, "rl_games", "sb3").not_preserved
    assert any(line.startswith("time limit: rl_games: bootstraps from V(s_t)") for line in on)
    lab = {"params": {"config": config}}  # rl_games 1.6.1 does not bootstrap by default, 1.6.5 does
    assert any(
        "time limit: isaaclab:rl_games: treated as" in line for line in translate(lab, "isaaclab", "sb3").not_preserved
    )
    assert translate({"num_envs": 4}, "cleanrl", "rl_games").config["value_bootstrap"] is False
    assert translate({"n_envs": 4}, "sb3", "rl_games").config["value_bootstrap"] is True


def test_the_limits_of_rllibs_stop_section_are_budgets() -> None:
    def updates(stop: dict[str, Any]) -> int | None:
        config = {"num_workers": 1, "num_envs_per_worker": 4, "train_batch_size": 400, "sgd_minibatch_size": 100}
        tuned = {"cartpole-ppo": {"run": "PPO", "env": "CartPole-v1", "stop": stop, "config": config}}
        return translate(tuned, "rllib_old", "sb3").plan.num_updates

    assert updates({"timesteps_total": 1000}) == 3  # stops after the iteration that reaches it
    assert updates({"timesteps_total": 1000, "training_iteration": 2, "episode_reward_mean": 150}) == 2
    assert updates({"episode_reward_mean": 150}) is None
    new = {"num_env_runners": 1, "train_batch_size_per_learner": 400, "minibatch_size": 100}
    stop = {"num_env_steps_sampled_lifetime": 1200}
    assert translate({"stop": stop, **new}, "rllib", "sb3").plan.num_updates == 3


def test_torchrls_atari_scripts_count_frames() -> None:
    config = {
        "env": {"env_name": "ALE/Pong-v5", "num_envs": 8},
        "collector": {"frames_per_batch": 4096, "total_frames": 40_000_000},
        "loss": {"mini_batch_size": 1024, "ppo_epochs": 3},
    }
    plan = translate(config, "torchrl", "rollshape").plan
    assert (plan.num_steps, plan.rollout_size, plan.minibatch_size) == (128, 1024, 256)
    assert plan.num_updates == 9766  # of 10,000,000 steps, rounded up
    assert translate(config, "torchrl", "torchrl").config["frames_per_batch"] == 4096
    config["loss"]["mini_batch_size"] = 1000
    assert fit(config, "torchrl").edits[0].value == 1024
    mujoco = config | {"env": {"env_name": "HalfCheetah-v4", "num_envs": 8}}
    assert translate(mujoco | {"loss": {}}, "torchrl", "rollshape").plan.rollout_size == 4096


def test_rrd_both_ways() -> None:
    shell = {"TRAIN_BATCHES": 64, "BATCH_SIZE": 32, "RRD_BATCH_SIZE": 32, "RRD_SAMPLE_SIZE": 32}
    there = translate(shell, "rrd", "rollshape")
    assert there.config["transition_batch_size"] == 32
    assert there.plan.to_dict()["num_subsequences"] == 1
    back = translate(there.config, "rollshape", "rrd")
    assert {name: back.config[name.lower()] for name in shell} == shell
    with pytest.raises(RequestError, match="replay") as caught:
        translate(shell, "rrd", "sb3")
    assert caught.value.rule == "family"
    with pytest.raises(RequestError, match="zero subsequences"):
        translate(shell | {"RRD_SAMPLE_SIZE": 64}, "rrd", "rollshape")


def test_names() -> None:
    asked = (
        "sb3 sbx cleanrl maniskill rl_games isaaclab rsl_rl skrl rllib rllib_old brax purejaxrl rejax stoix torchrl "
        "tianshou sample_factory pufferlib baselines_ppo1 baselines_ppo2 dopamine acme rrd"
    )
    assert set(asked.split()) <= set(NAMES)
    with pytest.raises(RequestError, match="Unknown dialect 'rlgames'") as caught:
        translate({}, "rlgames", "sb3")
    assert "rl_games" in caught.value.fix
