"""A checkpoint is verified before anything of it is used."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from rollshape.checksums import Extent
from rollshape.errors import RequestError
from rollshape.training import checkpoint
from rollshape.training.checkpoint import DamagedCheckpoint

STATE = {"weights": jnp.arange(40.0), "update": jnp.asarray(7)}
SNAPSHOT = {"seed": np.asarray(3), "positions": np.linspace(0, 1, 12).reshape(3, 4)}
METRICS = Extent(12, "ab" * 32)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return checkpoint.save(tmp_path, 7, STATE, SNAPSHOT, METRICS)


def like() -> dict[str, jnp.ndarray]:
    return {"weights": jnp.zeros(40), "update": jnp.asarray(0)}


def test_state_snapshot_and_the_extent_of_the_metrics_come_back(saved: Path) -> None:
    contents = checkpoint.load(saved, like())
    np.testing.assert_array_equal(contents.state["weights"], STATE["weights"])
    assert contents.metrics == METRICS
    assert contents.snapshot is not None
    assert list(contents.snapshot) == list(SNAPSHOT)
    np.testing.assert_array_equal(contents.snapshot["positions"], SNAPSHOT["positions"])
    bare = checkpoint.save(saved.parent, 8, STATE)
    assert checkpoint.load(bare, like()).snapshot is None


def test_every_flipped_bit_is_recognized(saved: Path) -> None:
    original = saved.read_bytes()
    for position in range(0, len(original), 7):
        damaged = bytearray(original)
        damaged[position] ^= 1 << (position % 8)
        saved.write_bytes(damaged)
        with pytest.raises(DamagedCheckpoint, match="checksum does not match"):
            checkpoint.load(saved, like())


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 200, -1])
def test_a_truncated_file_is_recognized(size: int, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:size])
    with pytest.raises(DamagedCheckpoint):
        checkpoint.load(saved, like())


def test_a_checkpoint_under_the_name_of_another_update_is_refused(saved: Path) -> None:
    renamed = saved.rename(saved.with_name("000000009.eqx"))
    with pytest.raises(DamagedCheckpoint):
        checkpoint.load(renamed, like())


def test_the_message_lists_the_other_checkpoints(saved: Path) -> None:
    checkpoint.save(saved.parent, 3, STATE)
    saved.write_bytes(b"")
    with pytest.raises(DamagedCheckpoint) as caught:
        checkpoint.load(saved, like())
    assert caught.value.fix == "Use another checkpoint of the run: it has 3."


@pytest.mark.parametrize(
    "other", [{"weights": jnp.zeros(41), "update": jnp.asarray(0)}, {"update": jnp.asarray(0)}, {}]
)
def test_an_intact_checkpoint_of_another_shape_is_not_called_damaged(
    other: dict[str, jnp.ndarray], saved: Path
) -> None:
    with pytest.raises(RequestError, match="does not fit this run") as caught:
        checkpoint.load(saved, other)
    assert not isinstance(caught.value, DamagedCheckpoint)
