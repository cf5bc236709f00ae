"""Shards and microbatches: chosen by formula, legal or refused, and without effect on what is learned."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from rollshape.algorithms.parallel import REPLICATED, Layout, Parallel, choose_layout
from rollshape.envs.spaces import Observation
from rollshape.errors import RequestError
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec, checked_spec

SMALL: dict[str, Any] = {"num_envs": 16, "num_steps": 8, "num_minibatches": 2, "num_epochs": 2, "hidden_sizes": (8,)}


def layout_of(**changes: Any) -> Layout:
    spec = checked_spec(Spec(**changes))
    return choose_layout(
        spec.plan(), Observation((4,)), 2, num_shards=spec.num_shards, microbatch_size=spec.microbatch_size,
        hidden_sizes=spec.hidden_sizes,
    )  # fmt: skip


def test_two_shards_where_each_is_worth_a_core() -> None:
    assert layout_of(num_envs=64, num_steps=128, num_minibatches=4).num_shards == 2
    assert layout_of(num_envs=4, num_steps=128, num_minibatches=4).num_shards == 1  # minibatches of 128
    assert layout_of(num_envs=65, num_steps=128, num_minibatches=4).num_shards == 1  # no two halves
    assert layout_of(num_envs=2, num_steps=1024, num_minibatches=4).num_shards == 2  # an environment each


def test_a_microbatch_is_the_largest_divisor_that_fits() -> None:
    large = layout_of(num_envs=4096, num_steps=16, num_minibatches=2, num_shards=1)
    assert large.microbatch_size < 32768
    assert 32768 % large.microbatch_size == 0
    wide = layout_of(num_envs=4096, num_steps=16, num_minibatches=2, num_shards=1, hidden_sizes=(256, 256))
    assert wide.microbatch_size < large.microbatch_size
    assert layout_of(num_envs=4, num_steps=128, num_minibatches=4).microbatch_size == 128


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_shards": 3}, "num_envs = 16"),
        ({"num_shards": 16, "num_minibatches": 16}, "minibatch_size = 8"),
        ({"microbatch_size": 7}, "64 samples"),
        ({"num_shards": 0}, "num_shards"),
        ({"microbatch_size": -1}, "microbatch_size"),
    ],
)
def test_what_does_not_divide_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told) as caught:
        layout_of(**{**SMALL, **changes})
    assert caught.value.rule in ("layout", "whole-number")


def parameters(**changes: Any) -> np.ndarray:
    """After two updates, of networks that began alike."""
    spec = Spec(env="CartPole-v1", total_timesteps=10**6, **{**SMALL, **changes})
    driver = new_driver(spec, plan_run(spec), 2)
    state, _, _ = driver.advance(driver.start(), 2)
    return np.asarray(ravel_pytree(jax.device_get(state.learner.network))[0])


def test_microbatches_change_the_order_of_sums_and_nothing_else() -> None:
    np.testing.assert_allclose(parameters(num_shards=1), parameters(num_shards=1, microbatch_size=16), atol=1e-5)


SHARDED = """
import json, os, sys
os.sched_setaffinity(0, json.loads(sys.argv[1]))
import hashlib, jax, numpy as np
from rollshape.training.setup import new_driver, plan_run
from rollshape.training.spec import Spec
spec = Spec(env="CartPole-v1", total_timesteps=10**6, num_shards=2, normalize_observations=True, normalize_rewards=True,
            num_envs=16, num_steps=8, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))
driver = new_driver(spec, plan_run(spec), 4)
state, metrics, _ = driver.advance(driver.start(), 4)
leaves = jax.tree.leaves(jax.device_get((state, metrics)))
print(hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_the_number_of_cores_changes_no_bit() -> None:
    cores = sorted(os.sched_getaffinity(0))
    found = set()
    for allowed in ([cores[0]], cores):
        made = subprocess.run(
            [sys.executable, "-c", SHARDED, json.dumps(allowed)], check=True, capture_output=True, text=True
        )
        found.add(made.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("fetch", [jnp.asarray, np.asarray])
def test_every_shard_has_memory_of_its_own(fetch: Callable[[Any], Any]) -> None:
    placed = Parallel(Layout(2, 8)).place(fetch(jnp.arange(4096.0)), REPLICATED)
    assert len({shard.data.unsafe_buffer_pointer() for shard in placed.addressable_shards}) == 2
    assert all((np.asarray(shard.data) == np.arange(4096.0)).all() for shard in placed.addressable_shards)


def test_a_shard_too_many_for_this_jax_is_told() -> None:
    spec = Spec(env="CartPole-v1", **{**SMALL, "num_shards": 8, "num_envs": 16})
    assert len(jax.local_devices()) < 8
    with pytest.raises(RequestError, match="already running with") as caught:
        new_driver(spec, plan_run(spec))
    assert "JAX_NUM_CPU_DEVICES=8" in caught.value.fix


def test_it_is_written_down(tmp_path: Any) -> None:
    from rollshape.training.run import train

    run = train(env="CartPole-v1", total_timesteps=256, out=tmp_path / "run", **{**SMALL, "num_shards": 2})
    document = json.loads((run.path / "run.json").read_text())
    assert document["layout"] == {"num_shards": 2, "microbatch_size": 32}
    assert all(row["rollout_s"] > 0 and row["update_s"] >= 0 for row in run.metrics)
    assert jnp.isfinite(run.final_return or 0)
