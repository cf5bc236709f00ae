"""progress.csv, monitor.csv, evaluations.npz, and W&B's files and exports: whole, truncated, wrong and random."""

import json
import math
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.log_files import wandb_config, wandb_file, wandb_row
from rollshape.errors import RequestError
from rollshape.integrations.logs.monitors import place_episodes
from rollshape.integrations.logs.sb3_files import read_evaluations, read_monitor, read_progress
from rollshape.integrations.logs.wandb_file import read_wandb
from rollshape.integrations.logs.wandb_table import read_wandb_table

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MONITOR = '#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n10.0,10,0.5\n20.0,20,1.5\n'
PROGRESS = "time/total_timesteps,train/value_loss,rollout/ep_rew_mean,time/time_elapsed\n64,,10.0,1\n128,0.5,20.0,2\n"


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_progress(tmp_path: Path) -> None:
    log = read_progress(put(tmp_path, "progress.csv", PROGRESS))
    assert list(log.scalars["rollout/ep_rew_mean"]) == [(64, 1, 10), (128, 2, 20)]
    assert list(log.scalars["train/value_loss"]) == [(128, 2, 0.5)]


def test_a_truncated_line_is_left_out(tmp_path: Path) -> None:
    log = read_progress(put(tmp_path, "progress.csv", PROGRESS + "192,0.4,3"))
    assert len(log.scalars["rollout/ep_rew_mean"]) == 2
    assert "incomplete line" in log.notes[0]


def test_progress_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no column time/total_timesteps"):
        read_progress(put(tmp_path, "progress.csv", "a,b\n1,2\n"))


def test_a_monitor_file(tmp_path: Path) -> None:
    monitor = read_monitor(put(tmp_path, "0.monitor.csv", MONITOR))
    assert (monitor.env, monitor.returns, monitor.lengths) == ("CartPole-v1", [10.0, 20.0], [10, 20])


def test_episodes_of_several_environments_are_placed_by_their_own_steps(tmp_path: Path) -> None:
    files = [read_monitor(put(tmp_path, f"{i}.monitor.csv", MONITOR)) for i in range(2)]
    log = place_episodes(files, 2, ("r", "l"), with_times=False)
    assert list(log.scalars["r"].steps) == [20, 20, 60, 60]
    mixed = place_episodes(files[:1], 4, ("r", "l"), with_times=False)
    assert list(mixed.scalars["r"].steps) == [10, 30]
    assert "without saying which" in mixed.notes[0]


@pytest.mark.parametrize("text", ["", "#{}\n", "#[1]\nr,l\n1,2\n", "r,l,t\nnan,1,1\n1,-3,1\n1,1e400,1\n"])
def test_bad_monitor_files(tmp_path: Path, text: str) -> None:
    try:
        monitor = read_monitor(put(tmp_path, "monitor.csv", text))
    except RequestError:
        return
    assert monitor.returns == []
    assert monitor.env is None


def test_evaluations(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "evaluations.npz", timesteps=[100, 200], results=[[1.0, 3.0], [4.0, 6.0]], ep_lengths=[[1, 2]] * 2
    )
    log = read_evaluations(tmp_path / "evaluations.npz")
    assert [(step, value) for step, _, value in log.scalars["eval/mean_reward"]] == [(100, 2.0), (200, 5.0)]


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise SystemExit('executed')",))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    np.savez(path, timesteps=np.array([1]), results=np.array([[Bomb()]], dtype=object))
    with pytest.raises(RequestError, match=r"not a whole evaluations\.npz"):
        read_evaluations(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(RequestError, match=r"not a whole evaluations\.npz"):
        read_evaluations(path)


def test_a_compressed_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.npy", bytes(70_000_000))
    with pytest.raises(RequestError, match="holds more than"):
        read_evaluations(path)


@pytest.mark.parametrize("shape", [(3, 2), (2,), (2, 2, 1)])
def test_evaluations_of_other_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.savez(tmp_path / "evaluations.npz", timesteps=[100, 200], results=np.zeros(shape))
    with pytest.raises(RequestError, match=r"not a whole evaluations\.npz"):
        read_evaluations(tmp_path / "evaluations.npz")


ROWS = [
    {"_step": str(i), "global_step": str(64 * i), "losses/entropy": "0.5", "_timestamp": f"{1e9 + i}"} for i in (1, 2)
]


def test_an_offline_file_of_wandb(tmp_path: Path) -> None:
    big = {"_step": "9", "table": json.dumps("x" * 90_000)}  # over several blocks
    records = [wandb_config({"num_envs": "4", "_wandb": "{}"}), *map(wandb_row, ROWS), wandb_row(big)]
    log = read_wandb(put(tmp_path, "run-1.wandb", wandb_file(records)))
    assert log.config == {"num_envs": 4}
    assert list(log.scalars["losses/entropy"]) == [(64, 1e9 + 1, 0.5), (128, 1e9 + 2, 0.5)]
    assert (log.axis, log.notes) == ("global_step", [])


def test_a_truncated_offline_file(tmp_path: Path) -> None:
    content = wandb_file([*map(wandb_row, ROWS)])
    log = read_wandb(put(tmp_path, "run-1.wandb", content[:-5]))
    assert len(log.scalars["losses/entropy"]) == 1
    assert "incomplete record" in log.notes[0]
    changed = bytearray(content)
    changed[-5] ^= 1
    log = read_wandb(put(tmp_path, "run-1.wandb", bytes(changed)))
    assert "wrong checksum" in log.notes[0]


def test_another_version_of_the_offline_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not an offline file of W&B") as caught:
        read_wandb(put(tmp_path, "run-1.wandb", b":W&B\xe1\xbe\x01" + bytes(50)))
    assert "CSV" in caught.value.fix


def test_the_messages_are_those_of_wandb(tmp_path: Path) -> None:
    proto = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    record = proto.Record()
    item = record.history.item.add()
    item.key, item.value_json = "losses/entropy", "0.25"
    item = record.history.item.add()
    item.nested_key.append("global_step")
    item.value_json = "64"
    config = proto.Record()
    update = config.config.update.add()
    update.key, update.value_json = "num_envs", "8"
    log = read_wandb(put(tmp_path, "run-1.wandb", wandb_file([record.SerializeToString(), config.SerializeToString()])))
    assert list(log.scalars["losses/entropy"].values) == [0.25]
    assert log.config == {"num_envs": 8}


def test_the_export_of_a_chart_has_a_log_per_run(tmp_path: Path) -> None:
    text = (
        '"global_step","a - charts/episodic_return","a - charts/episodic_return__MIN","b - charts/episodic_return"\n'
        "64,1.0,0.5,\n128,2.0,1.5,7.0\n"
    )
    logs = read_wandb_table(put(tmp_path, "export.csv", text))
    assert {run: list(log.scalars["charts/episodic_return"].values) for run, log in logs.items()} == {
        "a": [1.0, 2.0], "b": [7.0],
    }  # fmt: skip
    with pytest.raises(RequestError, match="over another axis"):
        read_wandb_table(put(tmp_path, "export.csv", text.replace("global_step", "Relative Time")))


def test_the_export_of_a_history(tmp_path: Path) -> None:
    log = read_wandb_table(put(tmp_path, "history.csv", "_step,global_step,losses/entropy\n0,64,0.5\n1,,0.1\n"))[
        "history"
    ]
    assert list(log.scalars["losses/entropy"].steps) == [64]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", '"a\nb', "x\0y\n"])
def test_other_tables_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RequestError):
        read_wandb_table(put(tmp_path, "x.csv", text))


@QUICK
@given(
    content=st.binary(max_size=150), start=st.sampled_from([b"", b":W&B\xe1\xbe\x00", MONITOR.encode(), b"PK\x03\x04"])
)
def test_random_bytes_are_refused_or_read(tmp_path: Path, content: bytes, start: bytes) -> None:
    path = put(tmp_path, "file", start + content)
    for read in (read_progress, read_monitor, read_evaluations, read_wandb, read_wandb_table):
        try:
            read(path)
        except RequestError:
            continue


@QUICK
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_offline_file_gives_a_prefix(tmp_path: Path, position: int, byte: int) -> None:
    content = bytearray(wandb_file([*map(wandb_row, ROWS)] * 3))
    content[position % len(content)] = byte
    try:
        log = read_wandb(put(tmp_path, "run-1.wandb", bytes(content)))
    except RequestError:
        return
    for values in log.scalars.values():
        assert all(math.isfinite(value) and value in (0.5,) for value in values.values)
