"""Further places for metrics: TensorBoard and W&B, under CleanRL's names where the meaning is the same."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from rollshape.errors import RequestError
from rollshape.files import atomic_write

Row = Mapping[str, Any]
CLEANRL = {
    "episodic_return": "charts/episodic_return",
    "episodic_length": "charts/episodic_length",
    "sps": "charts/SPS",
    "learning_rate": "charts/learning_rate",
    "value_loss": "losses/value_loss",
    "policy_loss": "losses/policy_loss",
    "entropy": "losses/entropy",
    "approx_kl": "losses/approx_kl",
    "clip_fraction": "losses/clipfrac",
    "explained_variance": "losses/explained_variance",
}
WANDB_SECONDS = 30.0  # timeout for W&B's server when a run starts and when it ends


class Writer(Protocol):
    """A place that metrics go to. It may raise: `Writers` shields the run from that."""

    def open(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> None:
        """Start, or continue after the rows that a resumed run already has; no row may appear twice."""

    def row(self, row: Row) -> None: ...
    def close(self) -> None: ...


def scalars(row: Row) -> dict[str, float]:
    """Return a row's values by tag. Nulls are left out; the items of a list are numbered from 1.

    CleanRL's value loss is ½·mean((V − R)²), so the value under its tag is halved.
    """
    values: dict[str, float] = {}
    for name, value in row.items():
        tag = CLEANRL.get(name, f"rollshape/{name}")
        parts = {f"{tag}/{i}": part for i, part in enumerate(value, 1)} if isinstance(value, list) else {tag: value}
        scale = 0.5 if name == "value_loss" else 1.0
        values |= {tag: scale * part for tag, part in parts.items() if part is not None}
    del values["rollshape/timesteps"]  # the x axis
    return values


def table(spec: Mapping[str, Any]) -> str:
    """Return the hyperparameters as a Markdown table."""
    return "|param|value|\n|-|-|\n" + "\n".join(f"|{name}|{value}|" for name, value in spec.items())


class TensorBoard:
    """Event files in RUN_DIR/tb.

    Written synchronously: in tensorboardX's thread a full disk would go unnoticed and block the run.
    """

    def __init__(self) -> None:
        try:
            from tensorboardX import event_file_writer, summary
            from tensorboardX.proto import event_pb2
        except ImportError as error:
            raise _missing("tensorboard", error) from None
        self._writer, self._summary, self._proto = event_file_writer.EventsWriter, summary, event_pb2
        self._events: Any = None

    def open(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> None:
        (folder / "tb").mkdir(exist_ok=True)
        files = len(list((folder / "tb").glob("events.*")))
        self._events = self._writer(str(folder / "tb" / "events"), f".{files:03d}")  # the name's time is whole seconds
        if files:  # TensorBoard drops what an earlier session wrote after this step
            session = self._proto.SessionLog(status=self._proto.SessionLog.START)
            self._write(past[-1]["timesteps"] + 1 if past else 1, session_log=session)
            return
        self._write(0, summary=self._summary.text("hyperparameters", table(spec)))
        for row in past:
            self.row(row)

    def row(self, row: Row) -> None:
        for tag, value in scalars(row).items():
            self._write(row["timesteps"], summary=self._summary.scalar(tag, value))
        self._events.flush()

    def _write(self, step: int, **content: Any) -> None:
        self._events.write_event(self._proto.Event(wall_time=time.time(), step=step, **content))

    def close(self) -> None:
        if self._events is not None:
            self._events.close()


class WandB:
    """A W&B run whose id and last row are kept in RUN_DIR/wandb.json; offline where nobody is logged in."""

    def __init__(self) -> None:
        try:
            from wandb import Settings, init, login
        except ImportError as error:
            raise _missing("wandb", error) from None
        self._init, self._login, self._settings = init, login, Settings
        self._run: Any = None

    def open(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> None:
        self._file = folder / "wandb.json"
        known = json.loads(self._file.read_bytes()) if self._file.exists() else {}
        self._id, self._written = known.get("id", uuid.uuid4().hex[:8]), known.get("timesteps", 0)
        self._run = self._start(folder, spec)
        for row in past:
            self.row(row)

    def _start(self, folder: Path, spec: Mapping[str, Any]) -> Any:
        """Run online where that works at once; never ask for a login."""
        mode, why = os.environ.get("WANDB_MODE", ""), "WANDB_MODE is set"
        if mode not in ("offline", "disabled"):
            try:
                if self._login(prompt=False, verify=False):
                    return self._init_run(folder, spec, "online")
                why = "nobody is logged in"
            except Exception as error:  # no network, a key that is no key
                why = _short(error)
            mode = "offline"
        if mode == "offline":
            print(f"wandb is offline: {why}; `wandb sync {folder}/wandb/offline-run-*` uploads it", file=sys.stderr)
        return self._init_run(folder, spec, mode)

    def _init_run(self, folder: Path, spec: Mapping[str, Any], mode: Any) -> Any:
        return self._init(
            project=os.environ.get("WANDB_PROJECT", "rollshape"),
            name=folder.name,
            dir=str(folder),
            config=dict(spec),
            id=self._id,
            resume="allow",
            mode=mode,
            reinit="create_new",
            settings=self._settings(
                silent=True,
                console="off",
                init_timeout=WANDB_SECONDS,
                finish_timeout=WANDB_SECONDS,
                finish_timeout_raises=True,
            ),
        )

    def row(self, row: Row) -> None:
        if row["timesteps"] <= self._written:  # a resumed run repeats these rows
            return
        self._written = row["timesteps"]
        with atomic_write(self._file) as file:
            file.write(json.dumps({"id": self._id, "timesteps": self._written}).encode())
        self._run.log(scalars(row), step=row["timesteps"], commit=True)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


WRITERS: dict[str, Callable[[], Writer]] = {"tensorboard": TensorBoard, "wandb": WandB}


class Writers:
    """All requested trackers. One that fails is reported once and dropped; the run continues."""

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in WRITERS:
                raise RequestError("choice", f"There is no tracker {name!r}.", f"Trackers: {', '.join(WRITERS)}.")
        self._writers = {name: WRITERS[name]() for name in names}

    @contextmanager
    def opened(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> Iterator[None]:
        self._for_all(lambda writer: writer.open(folder, spec, past))
        try:
            yield
        finally:
            self._for_all(lambda writer: writer.close())

    def row(self, row: Row) -> None:
        self._for_all(lambda writer: writer.row(row))

    def _for_all(self, act: Callable[[Writer], None]) -> None:
        for name, writer in list(self._writers.items()):
            try:
                act(writer)
            except Exception as error:  # third-party code, and often the network
                print(
                    f"warning: {name} failed and is disabled: {_short(error)}; metrics.jsonl stays complete",
                    file=sys.stderr,
                )
                del self._writers[name]
                with suppress(Exception):
                    writer.close()


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _missing(extra: str, error: ImportError) -> RequestError:
    return RequestError("tracker", f"{extra} cannot be tracked with: {error}.", f"pip install 'rollshape[{extra}]'.")
