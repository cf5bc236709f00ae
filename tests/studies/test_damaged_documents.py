"""Whatever stands in the files of a study, even with a valid checksum: every reader succeeds or names the problem.

The values of run.json, metrics.jsonl, probes and the journal are replaced one by one by values of other types, of other
sizes, or by nothing. Without a valid checksum every change is refused (test_journal, test_checksums).
"""

import contextlib
import hashlib
import io
import json
import random
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.reports.runs import probe_document, write_run

from rollshape.checksums import seal
from rollshape.cli import main
from rollshape.cli.study_view import show_state
from rollshape.errors import RollshapeError
from rollshape.studies import run as study_run
from rollshape.studies.engines.pool import Engine, EngineOptions, NextTrials
from rollshape.studies.events import OnEvent
from rollshape.studies.run import open_study, run_study
from rollshape.studies.store import Store, TrialResult
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trial_runner import _finished_result
from rollshape.studies.trials import Trial, expand

REMOVED = object()
VALUES = (
    None, True, "x", "\ud800", "1", -1, 0, 1.5, 1e308, -1e308, 10**30, [], {}, [None], ["x"], [[[]]], {"a": 1}, REMOVED,
)  # fmt: skip
Write = Callable[[Path, Any], None]
Document = tuple[Any, Write]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a document, of lists the first and the last item."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list) and value:
        items = list({0: value[0], len(value) - 1: value[-1]}.items())
    for key, item in items:
        if key != "checksum":
            yield (*path, key)
            yield from paths_in(item, (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    if value is REMOVED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copy


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    path.chmod(0o644)
    path.write_text(json.dumps(seal(document)))


def write_rows(run_dir: Path, rows: Sequence[Any]) -> None:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (run_dir / "metrics.jsonl").chmod(0o644)
    (run_dir / "metrics.jsonl").write_bytes(content)
    extent = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_sealed(run_dir / "run.json", json.loads((run_dir / "run.json").read_text()) | {"metrics": extent})


def write_journal(path: Path, events: Sequence[Any]) -> None:
    lines, after = [], ""
    for event in events:
        event = seal({**event, "after": after} if "after" in event else event)
        after = event["checksum"]
        lines.append(json.dumps(event) + "\n")
    path.write_text("".join(lines))


def documents_of(folder: Path) -> Iterator[Document]:
    """Yield the documents of a study, each with a function that writes a changed one to a copy of the study."""
    run_dir = sorted((folder / "trials").iterdir())[0].relative_to(folder)
    document = json.loads((folder / run_dir / "run.json").read_text())
    yield document, lambda copy, changed: write_sealed(copy / run_dir / "run.json", changed)
    for probe in sorted((folder / "probes").rglob("*.json")):
        name = probe.relative_to(folder)
        yield json.loads(probe.read_text()), lambda copy, changed, name=name: write_sealed(copy / name, changed)
    rows = [json.loads(line) for line in (folder / run_dir / "metrics.jsonl").read_text().splitlines()]
    for i in (0, len(rows) - 1):
        yield (
            rows[i],
            lambda copy, changed, i=i: write_rows(copy / run_dir, [*rows[:i], changed, *rows[i + 1 :]]),
        )
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    for i, event in enumerate(events):
        yield (
            event,
            lambda copy, changed, i=i: write_journal(copy / "journal.jsonl", [*events[:i], changed, *events[i + 1 :]]),
        )


def open_trials(store: Store, trials: Sequence[Trial], _: EngineOptions, __: OnEvent, ___: NextTrials) -> None:
    """Instead of training: read what a worker reads before it trains."""
    for trial in trials:
        _finished_result(trial.spec, store.run_dir(trial.id), trial.until)


def read_everything(folder: Path, study: Any, *, report: bool) -> None:
    codes = [main([*command, str(folder), *flags]) for command in (["diagnose"], ["report"])[: 1 + report]
             for flags in ([], ["--json"])]  # fmt: skip
    assert set(codes) <= {0, 2}
    with contextlib.suppress(RollshapeError):
        state = run_study(study, folder)
        json.dumps([state.to_dict(), [point.to_dict() for point in state.point_summaries()]], allow_nan=False)
        show_state(state)


def attack(folder: Path, scratch: Path, count: int, reports: int) -> None:
    """Check `count` random changes with all readers, and `reports` of them also with the report."""
    study = open_study(folder).study
    changes = [
        (document, path, value, write)
        for document, write in documents_of(folder)
        for path in paths_in(document)
        for value in VALUES
    ]
    for i, (document, path, value, write) in enumerate(random.Random(0).sample(changes, count)):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        write(scratch, replaced(document, path, value))
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read_everything(scratch, study, report=i < reports)
            except Exception as error:
                raise AssertionError(f"{path} = {value!r}") from error


@pytest.fixture(autouse=True)
def _nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(study_run.ENGINES, "local", Engine(lambda _: None, open_trials))


def test_a_made_up_study(tmp_path: Path) -> None:
    fixed = {"env": "CartPole-v1", "num_steps": 32, "total_timesteps": 81_920}
    study = study_from_dict({"fixed": fixed, "points": [{"num_envs": 64}, {"num_envs": 3}], "seeds": 2}, "x")
    store = Store(tmp_path / "study")
    store.begin(study)
    store.journal.append({"event": "run", "command": "", "engine": "local", "machine": "", "load": ""})
    for trial in expand(study).trials:
        write_run(store.run_dir(trial.id), trial.spec, 100.0)
        rows = (store.run_dir(trial.id) / "metrics.jsonl").read_text().splitlines()
        write_rows(store.run_dir(trial.id), list(map(json.loads, rows)))
        store.write_probe(trial.id, 0.5, probe_document({64: (1.0, 0.5), 8: (2.0, 0.1)}))
        store.record_end(trial.id, TrialResult("done", summary={"final_return": 100.0, "timesteps": 81_920}))
    attack(store.path, tmp_path / "copy", count=40, reports=2)


@pytest.mark.slow
def test_a_real_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    fixed = {"num_steps": 8, "num_epochs": 1, "num_minibatches": 1, "total_timesteps": 1280, "hidden_sizes": [4]}
    values = {"env": "CartPole-v1", "fixed": fixed, "points": [{"num_envs": 8}], "seeds": 2}
    study = study_from_dict(values | {"probe": {"at": [0.5, 1.0], "num_envs": 32}}, "tiny")
    assert run_study(study, tmp_path / "study").is_finished
    monkeypatch.setitem(study_run.ENGINES, "local", Engine(lambda _: None, open_trials))
    attack(tmp_path / "study", tmp_path / "copy", count=120, reports=10)
