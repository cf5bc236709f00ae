"""Every row reaches every writer once, under CleanRL's names, and no writer can end a run."""

import json
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.training import loggers
from rollshape.training.loggers import TensorBoard, WandB, Writers, scalars
from rollshape.training.run import train

SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "num_envs": 8, "num_steps": 16, "num_epochs": 2, "total_timesteps": 8 * 16 * 8,
    "hidden_sizes": (8,), "log_every": 1, "checkpoint_every": 2,
}  # fmt: skip


def row(timesteps: int, **more: Any) -> dict[str, Any]:
    return {"update": timesteps // 128, "timesteps": timesteps, "sps": 7, **more}


def test_names_are_cleanrls_where_the_meaning_is() -> None:
    losses = {"value_loss": 3.0, "clip_fraction": 0.25, "eval_return": None}
    assert scalars(row(256, **losses, ratio_ess=0.5, ratio_ess_epochs=[1.0, None, 0.25])) == {
        "charts/SPS": 7, "losses/value_loss": 1.5, "losses/clipfrac": 0.25, "rollshape/update": 2,
        "rollshape/ratio_ess": 0.5, "rollshape/ratio_ess_epochs/1": 1.0, "rollshape/ratio_ess_epochs/3": 0.25,
    }  # fmt: skip


# TensorBoard


def events(folder: Path) -> Iterator[Any]:
    """All events of a folder in TensorBoard's order: length, its checksum, the event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted((folder / "tb").iterdir()):
        raw, at = path.read_bytes(), 0
        while at < len(raw):
            (size,) = struct.unpack_from("<Q", raw, at)
            yield Event.FromString(raw[at + 12 : at + 12 + size])
            at += 12 + size + 4


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows: a session that starts at a step makes it forget all events from there on."""
    from tensorboardX.proto.event_pb2 import SessionLog

    series: dict[str, list[tuple[int, float]]] = {}
    for event in events(folder):
        if event.session_log.status == SessionLog.START:
            series = {tag: [point for point in points if point[0] < event.step] for tag, points in series.items()}
        for value in event.summary.value:
            series.setdefault(value.tag, []).append((event.step, value.simple_value))
    return series


def assert_shows(folder: Path, metrics: list[dict[str, Any]]) -> None:
    wanted: dict[str, list[tuple[int, float]]] = {}
    for told in metrics:
        for tag, value in scalars(told).items():
            wanted.setdefault(tag, []).append((told["timesteps"], pytest.approx(value, rel=1e-6)))
    series = shown(folder)
    assert len(series.pop("hyperparameters/text_summary")) == 1
    assert series == wanted


class Killed(BaseException):
    pass


def killed_at(update: int) -> Any:
    def on_row(told: dict[str, Any], _: Any) -> None:
        if told["update"] == update:
            raise Killed

    return on_row


def test_tensorboard_has_every_row_once_after_a_resume(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(out=tmp_path / "x", track=["tensorboard"], on_row=killed_at(5), **SMALL)
    assert shown(tmp_path / "x")["rollshape/update"][-1] == (5 * 128, 5)  # the checkpoint is of update 4
    run = train(out=tmp_path / "x", track=["tensorboard"], resume=True, **SMALL)
    assert_shows(run.path, run.metrics)


def test_tensorboard_that_comes_late_gets_the_rows_before_it(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(out=tmp_path / "x", on_row=killed_at(5), **SMALL)
    run = train(out=tmp_path / "x", track=["tensorboard"], resume=True, **SMALL)
    assert_shows(run.path, run.metrics)
    values = [value for event in events(run.path) for value in event.summary.value]
    texts = [value.tensor.string_val[0].decode() for value in values if value.tensor.string_val]
    assert texts[0].startswith("|param|value|\n|-|-|\n|algo|ppo|\n")
    assert "\n|env|CartPole-v1|\n" in texts[0]


# W&B, offline: nothing here may need a network or a terminal


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "no-config"))


def records(path: Path) -> Iterator[Any]:
    """W&B's file: a header of 7 bytes, then LevelDB's log (blocks of 32 KiB; checksum, length, kind)."""
    from wandb.proto.wandb_internal_pb2 import Record

    raw, at, part = path.read_bytes(), 7, b""
    while at + 7 <= len(raw):
        if 2**15 - at % 2**15 < 7:
            at += 2**15 - at % 2**15
            continue
        _, size, kind = struct.unpack_from("<IHB", raw, at)
        part, at = part + raw[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or the last of its parts
            yield Record.FromString(part)
            part = b""


def histories(folder: Path) -> list[dict[str, Any]]:
    """The rows of all sessions; W&B's own process may still be writing when a run has finished."""
    found = []
    for path in folder.glob("wandb/offline-run-*/*.wandb"):
        deadline = time.monotonic() + 30
        while not any(record.HasField("exit") for record in records(path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        rows = [record.history.item for record in records(path) if record.HasField("history")]
        found += [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in row} for row in rows]
    return found


@pytest.mark.usefixtures("offline")
def test_wandb_runs_offline_says_so_once_and_has_every_row_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(128 * i, value_loss=float(i), eval_return=None) for i in range(1, 6)]
    writers = Writers(["wandb"])
    with writers.opened(tmp_path, {"env": "x"}, []):
        for told in rows[:3]:
            writers.row(told)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("wandb is offline: nobody is logged in")
    writers = Writers(["wandb"])
    with writers.opened(tmp_path, {"env": "x"}, rows[:2]):  # the checkpoint was that of the second row
        for told in rows[2:]:
            writers.row(told)
    written = sorted(histories(tmp_path), key=lambda item: item["_step"])
    assert [item["_step"] for item in written] == [128, 256, 384, 512, 640]
    assert [item["losses/value_loss"] for item in written] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert all("rollshape/eval_return" not in item for item in written)
    assert len({path.name for path in tmp_path.glob("wandb/offline-run-*/*.wandb")}) == 1  # one id


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("failure", [ConnectionError("no route"), ValueError("no key")])
def test_wandb_whose_server_does_not_answer_is_offline(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = WandB()
    begun = writer._init

    def unanswered(**options: Any) -> Any:
        if options["mode"] == "online":
            raise failure
        return begun(**options)

    monkeypatch.setattr(writer, "_login", lambda **_: True)
    monkeypatch.setattr(writer, "_init", unanswered)
    writer.open(tmp_path, {}, [row(128)])
    writer.close()
    assert str(failure) in capsys.readouterr().err
    assert [item["_step"] for item in histories(tmp_path)] == [128]


# What can go wrong


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb")])
def test_a_missing_package_is_named_before_anything_starts(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RequestError) as caught:
        train(out=tmp_path / "x", track=[name], **SMALL)
    assert f"rollshape[{name}]" in caught.value.fix
    assert not (tmp_path / "x").exists()
    with pytest.raises(RequestError, match="no tracker 'comet'"):
        train(out=tmp_path / "x", track=["comet"], **SMALL)


@pytest.mark.parametrize("part", ["open", "row", "close"])
def test_a_writer_that_fails_is_told_of_once_and_the_run_goes_on(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing:
        def open(self, *_: Any) -> None:
            self.fail("open")

        def row(self, _: Any) -> None:
            self.fail("row")

        def close(self) -> None:
            self.fail("close")

        def fail(self, now: str) -> None:
            if now == part:
                raise ConnectionError("no route to host")

    monkeypatch.setitem(loggers.WRITERS, "failing", Failing)
    run = train(out=tmp_path / "x", track=["failing", "tensorboard"], **SMALL)
    assert run.status == "done"
    assert len(run.metrics) == 8
    assert capsys.readouterr().err.splitlines() == [
        "warning: failing failed and is disabled: ConnectionError: no route to host; metrics.jsonl stays complete"
    ]
    assert_shows(run.path, run.metrics)


def test_tensorboard_on_a_full_disk_fails_in_the_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    writer = TensorBoard()
    writer.open(tmp_path, {}, [])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            writer.row(row(128))
    writer.close()
