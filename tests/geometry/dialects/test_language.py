"""Dialects of language model trainers: arithmetic by hand, and there and back."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollshape.errors import RequestError
from rollshape.geometry.completions import BatchSplit
from rollshape.geometry.dialects import DIALECTS, fit, fit_config, resolve, translate
from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.language import CompletionRecipe, new_recipe
from rollshape.geometry.dialects.predict import predict
from rollshape.geometry.dialects.reading import read, write
from rollshape.geometry.dialects.registry import ALL_DIALECTS, LANGUAGE_DIALECTS
from rollshape.geometry.plan import Plan

TRL = {
    "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 8, "steps_per_generation": 8,
    "num_iterations": 2, "max_steps": 64, "num_processes": 4, "learning_rate": 2e-6,
}  # fmt: skip
VERL: dict[str, Any] = {
    "data": {"train_batch_size": 1024},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 256, "ppo_micro_batch_size_per_gpu": 16, "optim": {"lr": 1e-6}},
        "rollout": {"n": 5},
    },
    "trainer": {"n_gpus_per_node": 8, "nnodes": 2, "total_epochs": 15},
    "algorithm": {"adv_estimator": "grpo"},
}
OPENRLHF = {
    "rollout.batch_size": 128, "rollout.n_samples_per_prompt": 8, "train.batch_size": 256, "train.micro_batch_size": 4,
    "actor.num_gpus_per_node": 8, "algo.advantage.estimator": "group_norm", "train.num_episodes": 3,
}  # fmt: skip
names = st.sampled_from(sorted(LANGUAGE_DIALECTS))


def predicted(name: str, config: dict[str, Any]) -> Plan:
    library = LANGUAGE_DIALECTS[name]
    return predict(library, read(config, library).recipe)


def shape(plan: Plan) -> tuple[Any, ...]:
    sizes = (plan.rollout_size, plan.minibatch_size, plan.num_epochs, plan.completions)
    return (*sizes, plan.gradient_steps_per_update, plan.num_updates, plan.gradient_steps)


@st.composite
def recipes(draw: st.DrawFn) -> CompletionRecipe:
    gpus, micro, steps, count = (draw(st.integers(1, most)) for most in (8, 6, 4, 4))
    size = gpus * micro * steps
    algo = draw(st.sampled_from(["grpo", "rloo", "ppo"]))
    generations = (
        1 if algo == "ppo" else draw(st.sampled_from([d for d in range(2, 17) if size * count % d == 0] or [0]))
    )
    assume(generations)
    return new_recipe(
        BatchSplit(size * count, size, micro),
        {"num_epochs": draw(st.integers(1, 3)), "num_updates": draw(st.integers(1, 50))},
        algo=algo, estimator="gae" if algo == "ppo" else algo, num_generations=generations, world_size=gpus,
        hyper={"learning_rate": 1e-6, "clip_range": 0.2, "max_grad_norm": 1.0},
    )  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(recipes(), names)
def test_write_then_read_is_the_identity(recipe: CompletionRecipe, name: str) -> None:
    dialect = LANGUAGE_DIALECTS[name]
    assume(recipe.algo in dialect.algorithms)
    adapted = dialect.adapt(recipe)
    again = read(write(adapted, dialect), dialect).recipe
    assert not dialect.problem(again)
    assert isinstance(adapted, CompletionRecipe)
    assert isinstance(again, CompletionRecipe)
    assert (again.split, again.num_generations, again.world_size, again.num_epochs, again.algo) == (
        adapted.split, adapted.num_generations, adapted.world_size, adapted.num_epochs, adapted.algo,
    )  # fmt: skip
    if name != "openrlhf":  # it counts passes over the dataset only
        assert again.num_updates == adapted.num_updates
    assert again.hyper["learning_rate"] == 1e-6
    if not dialect.whole_groups or recipe.minibatch_size % recipe.num_generations == 0:
        assert again.split == recipe.split, "what is legal stays"


@settings(max_examples=500, deadline=None)
@given(recipes(), names, names)
def test_there_and_back(recipe: CompletionRecipe, here: str, there: str) -> None:
    first, second = LANGUAGE_DIALECTS[here], LANGUAGE_DIALECTS[there]
    assume(recipe.algo in first.algorithms & second.algorithms)
    start = write(first.adapt(recipe), first)
    going = translate(start, here, there)
    coming = translate(going.config, there, here)
    lost = [
        line for line in going.not_preserved if line.split(":")[0] in ("minibatch_size", "rollout_size", "num_epochs")
    ]
    if "openrlhf" in (here, there):
        return  # it has no key for a number of updates, so the budget is lost
    if not lost:
        assert shape(predicted(here, start)) == shape(coming.plan)
    assert translate(coming.config, here, there).config == going.config


def test_trl_in_the_words_of_the_others() -> None:
    plan = predicted("trl:grpo", TRL)
    assert (plan.rollout_size, plan.minibatch_size, plan.num_epochs) == (4 * 4 * 8, 4 * 4 * 2, 2)
    assert (plan.gradient_steps_per_update, plan.num_updates, plan.gradient_steps) == (8, 8, 64)
    verl = translate(TRL, "trl:grpo", "verl")
    assert verl.config["data"] == {"train_batch_size": 16}
    assert verl.config["actor_rollout_ref"]["rollout"] == {"n": 8}
    actor = verl.config["actor_rollout_ref"]["actor"]
    assert (actor["ppo_mini_batch_size"], actor["ppo_micro_batch_size_per_gpu"], actor["ppo_epochs"]) == (4, 4, 2)
    assert verl.config["trainer"] == {"n_gpus_per_node": 4, "total_training_steps": 8}
    assert verl.config["algorithm"]["adv_estimator"] == "grpo"
    openrlhf = translate(TRL, "trl:grpo", "openrlhf")
    assert {name: openrlhf.config[name] for name in OPENRLHF if name != "train.num_episodes"} == {
        "rollout.batch_size": 16, "rollout.n_samples_per_prompt": 8, "train.batch_size": 32,
        "train.micro_batch_size": 4, "actor.num_gpus_per_node": 4, "algo.advantage.estimator": "group_norm",
    }  # fmt: skip
    assert "budget of 1,024 completions: openrlhf has no key for it" in openrlhf.not_preserved


def test_one_generation_batch_per_optimizer_step_is_the_default() -> None:
    plan = predicted("trl:grpo", {"num_generations": 4, "gradient_accumulation_steps": 3})
    assert (plan.rollout_size, plan.minibatch_size) == (24, 24)
    several = predicted("trl:grpo", {"num_generations": 8, "gradient_accumulation_steps": 4, "steps_per_generation": 1})
    assert (several.rollout_size, several.num_minibatches) == (32, 1), "four generations before one step"
    assert translate({"num_generations": 8, "gradient_accumulation_steps": 4, "steps_per_generation": 1},
                     "trl:grpo", "trl:grpo").config["steps_per_generation"] == 1  # fmt: skip


def test_max_steps_counts_optimizer_steps() -> None:
    plan = predicted("trl:grpo", {**TRL, "max_steps": 12})
    assert (plan.num_updates, plan.gradient_steps) == (2, 12), "the second update is cut short"
    assert translate({**TRL, "max_steps": 12}, "trl:grpo", "trl:rloo").config["max_steps"] == 12


def test_verl_counts_prompts_and_gpus_of_a_replica_once() -> None:
    plan = predicted("verl", VERL)
    assert (plan.rollout_size, plan.minibatch_size) == (5120, 1280)
    assert plan.completions is not None
    assert (plan.world_size, plan.completions.gradient_accumulation_steps) == (16, 5)
    megatron = {**VERL, "actor_rollout_ref": {**VERL["actor_rollout_ref"], "actor": {
        **VERL["actor_rollout_ref"]["actor"], "strategy": "megatron",
        "megatron": {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}}}}  # fmt: skip
    assert predicted("verl", megatron).world_size == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data.train_batch_size": 1008}, "5040 % 1280"),
        ({"data.train_batch_size": 128}, "must be >= actor.ppo_mini_batch_size"),
        ({"data.train_batch_size": 1023}, "must be divisible by minimal possible batch size"),
        ({"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 7}, "80 completions per GPU % 7"),
        ({"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": None}, "set ppo_micro_batch_size_per_gpu"),
        ({"trainer.n_gpus_per_node": 9, "data.train_batch_size": 2304}, "on 18 data-parallel GPUs"),
        ({"data.gen_batch_size": 2048}, "dynamic sampling"),
    ],
)
def test_verl_refuses(change: dict[str, Any], words: str) -> None:
    config = {
        "data.train_batch_size": 1024, "actor_rollout_ref.actor.ppo_mini_batch_size": 256,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 16, "actor_rollout_ref.rollout.n": 5,
        "trainer.n_gpus_per_node": 8, "trainer.nnodes": 2, "algorithm.adv_estimator": "grpo", **change,
    }  # fmt: skip
    with pytest.raises(RequestError, match=words) as caught:
        predicted("verl", config)
    assert caught.value.rule == "completion-split"
    if "gen_batch_size" not in str(change):
        assert not LANGUAGE_DIALECTS["verl"].problem(
            read(fit_config(config, "verl", verbose=False), LANGUAGE_DIALECTS["verl"]).recipe
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train.micro_batch_size": 3}, "train_batch_size 256 is not equal to micro_batch_per_gpu 3"),
        ({"rollout.batch_size": 100}, "800 completions per update are not a multiple of train.batch_size 256"),
        ({"rollout.n_samples_per_prompt": 1, "rollout.batch_size": 256}, "requires n_samples_per_prompt > 1"),
        ({"ds.ring_attn_size": 3}, "8 GPUs are not a multiple"),
    ],
)
def test_openrlhf_refuses(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        predicted("openrlhf", OPENRLHF | change)


def test_flat_names_of_older_openrlhf() -> None:
    old = {
        "rollout_batch_size": 128, "n_samples_per_prompt": 8, "train_batch_size": 256, "micro_train_batch_size": 4,
        "actor_num_gpus_per_node": 8, "advantage_estimator": "group_norm", "num_episodes": 3,
    }  # fmt: skip
    assert predicted("openrlhf", old) == predicted("openrlhf", OPENRLHF)
    fitted = fit_config(old | {"micro_train_batch_size": 3}, "openrlhf", verbose=False)
    assert set(fitted) == set(old), "the old names stay"


def test_passes_over_the_dataset_are_kept() -> None:
    assert translate(OPENRLHF, "openrlhf", "trl:grpo").config["num_train_epochs"] == 3
    assert translate(VERL, "verl", "openrlhf").config["train.num_episodes"] == 15


def test_num_mini_batches_of_trls_ppo() -> None:
    config = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_mini_batches": 2}
    plan = predicted("trl:ppo", config)
    assert (plan.rollout_size, plan.minibatch_size, plan.gradient_steps_per_update) == (8, 8, 4)
    assert plan.findings[0].rule == "minibatch-accumulation"
    assert fit(config, "trl:ppo").edits == (), "TRL accepts it"
    assert "num_mini_batches 2 gives 1 optimizer step" in translate(config, "trl:ppo", "verl").notes[0]
    as_told = translate({"rollout.batch_size": 16, "train.batch_size": 4, "train.micro_batch_size": 2,
                         "actor.num_gpus_per_node": 1}, "openrlhf", "trl:ppo")  # fmt: skip
    assert as_told.plan.num_minibatches == 4
    assert as_told.config["num_mini_batches"] == 8, "four steps of two micro-batches"


def test_environments_and_prompts_do_not_translate() -> None:
    sb3 = {"n_envs": 8, "n_steps": 16}
    for source, target in ((sb3, "trl:grpo"), (sb3, "verl")):
        with pytest.raises(RequestError, match="completions of prompts: there is no translation") as caught:
            translate(source, "sb3", target)
        assert caught.value.rule == "family"
        assert "num_envs = prompts × generations" in caught.value.fix
    with pytest.raises(RequestError, match="no translation between them"):
        translate(TRL, "trl:grpo", "rl_games")
    with pytest.raises(RequestError, match="has no environments"):
        fit_config(TRL, "trl:grpo", num_envs=8, verbose=False)


def test_a_value_function_does_not_become_a_group() -> None:
    with pytest.raises(RequestError, match=r"trains grpo .* trl:ppo trains ppo only"):
        translate(TRL, "trl:grpo", "trl:ppo")
    with pytest.raises(RequestError, match="trains reinforce"):
        translate({**OPENRLHF, "algo.advantage.estimator": "reinforce"}, "openrlhf", "trl:ppo")
    assert translate({**OPENRLHF, "algo.advantage.estimator": "gae"}, "openrlhf", "verl").config["algorithm"][
        "adv_estimator"
    ] == "gae"  # fmt: skip
    lost = translate({**OPENRLHF, "algo.advantage.estimator": "dr_grpo"}, "openrlhf", "verl").not_preserved
    assert "advantage estimator: dr grpo in openrlhf, grpo in verl" in lost
    with pytest.raises(RequestError, match="estimator 'magic' is not known"):
        translate({**OPENRLHF, "algo.advantage.estimator": "magic"}, "openrlhf", "verl")


def test_every_pair_translates() -> None:
    for source, target in product(LANGUAGE_DIALECTS, LANGUAGE_DIALECTS):
        if "trl:ppo" in (source, target):
            continue
        there = translate(TRL, "trl:grpo", source).config
        plan = translate(there, source, target).plan
        assert (plan.rollout_size, plan.minibatch_size) == (128, 32)


def test_rlinf_by_task_type() -> None:
    reasoning = {
        "runner": {"task_type": "reasoning", "max_epochs": 2},
        "cluster": {"component_placement": {"actor,rollout": "0-3"}},
        "data": {"rollout_batch_size": 64}, "algorithm": {"group_size": 8, "n_minibatches": 4,
                                                          "training_batch_size_per_gpu": 8, "adv_type": "grpo"},
    }  # fmt: skip
    assert resolve("rlinf", reasoning).name == "rlinf:reasoning"
    plan = predicted("rlinf:reasoning", reasoning)
    assert (plan.rollout_size, plan.minibatch_size) == (512, 128)
    assert plan.completions is not None
    assert (plan.world_size, plan.completions.gradient_accumulation_steps) == (4, 4)
    everywhere = {**reasoning, "cluster": {"num_nodes": 2, "component_placement": {"actor": "all"}}}
    assert predicted("rlinf:reasoning", everywhere).world_size == 16
    for ranks in ("left", "1-", {}):
        with pytest.raises(RequestError):
            predicted("rlinf:reasoning", {**reasoning, "cluster": {"component_placement": {"actor": ranks}}})
    with pytest.raises(RequestError, match="task_type of this RLinf config is 'sft'"):
        resolve("rlinf", {"runner": {"task_type": "sft"}})


def test_rlinf_counts_chunks_of_actions() -> None:
    config: dict[str, Any] = {
        "runner": {"task_type": "embodied", "max_epochs": 100, "max_steps": -1},
        "env": {"train": {"total_num_envs": 128, "max_steps_per_rollout_epoch": 160, "rollout_epoch": 2}},
        "actor": {"global_batch_size": 640, "micro_batch_size": 40, "model": {"num_action_chunks": 8}},
        "algorithm": {"update_epoch": 3, "loss_type": "actor_critic"},
        "cluster": {"component_placement": {"actor": "0-7", "env": "0-3"}},
    }
    library = DIALECTS["rlinf:embodied"]
    plan = predict(library, read(config, library).recipe)
    assert (plan.num_envs, plan.gae_window, plan.num_steps) == (128, 20, 40)
    assert (plan.rollout_size, plan.num_minibatches, plan.gradient_steps_per_update) == (5120, 8, 24)
    assert plan.num_updates == 100
    del config["actor"]["model"]
    with pytest.raises(RequestError, match="does not contain num_action_chunks"):
        read(config, library)
    config["actor"]["model"] = {"num_action_chunks": 8}
    config["algorithm"]["loss_type"] = "embodied_sac"
    with pytest.raises(RequestError, match="on-policy"):
        read(config, library)


def test_megatrons_keys_are_enough_to_know_it() -> None:
    """`strategy` is in the file that --config-name names, not among the overrides."""
    config = {
        "data.train_batch_size": 192, "actor_rollout_ref.rollout.n": 5, "trainer.nnodes": 3,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 64, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
        "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size": 3, "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 1,
    }  # fmt: skip
    assert predicted("verl", config).world_size == 8
    with pytest.raises(RequestError, match="on 24 data-parallel GPUs"):
        predicted("verl", config | {"actor_rollout_ref.actor.strategy": "fsdp2"})


@pytest.mark.parametrize("dialect", ALL_DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_what_is_proven_has_its_test(dialect: Dialect) -> None:
    if dialect.own_proof:
        text = (Path(__file__).parents[2] / "peers" / dialect.own_proof).read_text()
        kind = dialect.name.rpartition(":")[2]
        assert f'"{dialect.name}"' in text or (f'"{kind}"' in text and "trl:{kind}" in text)


def test_mjlab_has_defaults_of_its_own() -> None:
    library = DIALECTS["mjlab"]
    recipe = read({"scene": {"num_envs": 4096}, "algorithm": {"num_mini_batches": 8}}, library).recipe
    assert (recipe.num_envs, recipe.num_steps, recipe.num_minibatches, recipe.num_updates) == (4096, 24, 8, 300)
    assert recipe.hyper["entropy_coef"] == 0.005
    assert read({"num_envs": 8, "num_steps_per_env": 24}, DIALECTS["rsl_rl"]).recipe.hyper["entropy_coef"] == 0.01


GARBAGE = (
    0, -1, -5, None, "auto", "8", 1.5, 1e30, True, [], {}, {"actor": None}, "megatron", "", 2**41, float("nan"), 97,
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(LANGUAGE_DIALECTS))
def test_garbage_is_refused_in_words(name: str) -> None:
    chance = random.Random(name)
    for _ in range(150):
        config = {
            key.name: chance.choice(GARBAGE) if chance.random() < 0.1 else chance.choice((key.default, 1, 2, 8, 12, 64))
            for key in LANGUAGE_DIALECTS[name].keys
            if chance.random() < 0.6
        }
        for use in (lambda: translate(config, name, name), lambda: fit(config, name)):  # noqa: B023
            try:
                use()
            except RequestError as error:
                assert error.fix


def test_names_that_say_too_little() -> None:
    with pytest.raises(RequestError, match="several trainers"):
        resolve("trl", TRL)
