"""Where metrics go besides metrics.jsonl: TensorBoard and W&B, under CleanRL's names where the meaning is the same."""

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
WANDB_SECONDS = 30.0  # for W&B's server to answer when a run starts, and to take what is left when it ends


class Writer(Protocol):
    """One place that metrics go to. It may raise: `Writers` keeps that from the run."""

    def open(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> None:
        """Begin, or go on behind the rows that a resumed run has already; no row is to be there twice."""

    def row(self, row: Row) -> None: ...
    def close(self) -> None: ...


def scalars(row: Row) -> dict[str, float]:
    """A row's values by the names that writers show; what is null is left out, a list gets a number each from 1.

    CleanRL's value loss is ½·mean((V − R)²), and so is what has its name here.
    """
    found: dict[str, float] = {}
    for name, value in row.items():
        tag = CLEANRL.get(name, f"rollshape/{name}")
        parts = {f"{tag}/{i}": part for i, part in enumerate(value, 1)} if isinstance(value, list) else {tag: value}
        scale = 0.5 if name == "value_loss" else 1.0
        found |= {tag: scale * part for tag, part in parts.items() if part is not None}
    del found["rollshape/timesteps"]  # the x axis
    return found


def table(spec: Mapping[str, Any]) -> str:
    """The hyperparameters as a Markdown table."""
    return "|param|value|\n|-|-|\n" + "\n".join(f"|{name}|{value}|" for name, value in spec.items())


class TensorBoard:
    """Event files in RUN_DIR/tb.

    Written at once and not by tensorboardX's thread, in which a full disk would end unseen and leave the run waiting.
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
        if files:  # what an earlier session wrote after this point is to be forgotten
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
        self._run = self._started(folder, spec)
        for row in past:
            self.row(row)

    def _started(self, folder: Path, spec: Mapping[str, Any]) -> Any:
        """Online where that works at once; it never asks for a login."""
        mode, why = os.environ.get("WANDB_MODE", ""), "as WANDB_MODE says"
        if mode not in ("offline", "disabled"):
            try:
                if self._login(prompt=False, verify=False):
                    return self._begun(folder, spec, "online")
                why = "nobody is logged in"
            except Exception as error:  # no network, a key that is no key
                why = _short(error)
            mode = "offline"
        if mode == "offline":
            print(f"wandb is offline: {why}; `wandb sync {folder}/wandb/offline-run-*` uploads it", file=sys.stderr)
        return self._begun(folder, spec, mode)

    def _begun(self, folder: Path, spec: Mapping[str, Any], mode: Any) -> Any:
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
        if row["timesteps"] <= self._written:  # a resumed run comes by here again, with the same values
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
    """All that were asked for. One that fails is told of once and left out; the run goes on."""

    def __init__(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in WRITERS:
                raise RequestError("choice", f"There is no tracker {name!r}.", f"Trackers: {', '.join(WRITERS)}.")
        self._writers = {name: WRITERS[name]() for name in names}

    @contextmanager
    def opened(self, folder: Path, spec: Mapping[str, Any], past: Sequence[Row]) -> Iterator[None]:
        self._each(lambda writer: writer.open(folder, spec, past))
        try:
            yield
        finally:
            self._each(lambda writer: writer.close())

    def row(self, row: Row) -> None:
        self._each(lambda writer: writer.row(row))

    def _each(self, act: Callable[[Writer], None]) -> None:
        for name, writer in list(self._writers.items()):
            try:
                act(writer)
            except Exception as error:  # another's code, and often the network
                print(
                    f"warning: {name} failed and is left out: {_short(error)}; metrics.jsonl has it all",
                    file=sys.stderr,
                )
                del self._writers[name]
                with suppress(Exception):
                    writer.close()


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _missing(extra: str, error: ImportError) -> RequestError:
    return RequestError("tracker", f"{extra} cannot be tracked with: {error}.", f"pip install 'rollshape[{extra}]'.")
