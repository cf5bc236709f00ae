"""Runs in Python: one class for trained and loaded runs, tables with and without a library, figures, HTML."""

import builtins
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import folder_of, make_probe, spec_of, write_run

import rollshape
from integrations.log_files import write_cleanrl
from rollshape.api import tables
from rollshape.api.runs import Run
from rollshape.api.tables import Columns, to_frame
from rollshape.errors import RequestError
from rollshape.integrations.description import describe
from rollshape.integrations.writer import RunWriter
from rollshape.training.rundir import RunDirectory

SPEC: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "total_timesteps": 256, "hidden_sizes": (4,)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rollshape.train(out=tmp_path_factory.mktemp("runs") / "mine", eval_every=64, final_episodes=8, **SPEC)


def test_a_trained_and_a_loaded_run_are_the_same(trained: Run) -> None:
    loaded = rollshape.load_run(trained.path)
    for name in ("path", "spec", "status", "rows", "final_return", "summary", "trainer", "versions", "probes"):
        assert getattr(loaded, name) == getattr(trained, name), name
    assert loaded.plan.to_dict() == trained.plan.to_dict()
    assert repr(loaded) == repr(trained)
    assert "4×8" in repr(loaded)
    low, high = loaded.final_return_interval or (0, 0)
    assert low < (loaded.final_return or 0) < high
    assert os.fspath(loaded) == str(trained.path)
    assert rollshape.evaluate(loaded, episodes=8).mean == loaded.final_return
    assert [diagnosis.record.path for diagnosis in rollshape.diagnose(loaded)] == [trained.path]


def test_metrics_are_a_table(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = trained.metrics
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(trained.rows)
    assert frame["timesteps"].tolist() == [row.timesteps for row in trained.rows]
    assert frame["q_loss"].isna().all()
    assert frame["q_loss"].dtype == np.float64

    rows = [row.values for row in trained.rows]
    monkeypatch.setattr(tables, "LIBRARIES", ())
    plain = to_frame(rows)
    assert isinstance(plain, Columns)
    assert plain["timesteps"].dtype == np.int64
    assert np.isnan(plain["q_loss"]).all()
    assert plain["approx_kl_epochs"].dtype == object
    assert "timesteps" in plain.columns
    with pytest.raises(AttributeError, match="pip install pandas"):
        plain.groupby("update")
    assert to_frame([{"a": "<b>"}])._repr_html_().count("&lt;b&gt;") == 1


def test_polars_is_used_if_it_is_what_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Polars:
        @staticmethod
        def DataFrame(values: dict[str, Any], strict: bool) -> Any:
            return "polars", values, strict

    monkeypatch.setitem(sys.modules, "polars", Polars)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert to_frame([{"a": 1, "b": None}]) == ("polars", {"a": [1], "b": [None]}, False)


def test_figures_of_a_run(trained: Run) -> None:
    figure = trained.plot()
    axes = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in axes] == ["return", "entropy", "approx_kl", "explained_variance"]
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert {"fresh episodes", "final"} <= set(labels)
    assert "95 % interval of the final return over its 8 episodes" in figure.get_supxlabel()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(trained.plot("sps").axes) == 1
    for name, words in (("entrpy", "Did you mean entropy"), ("q_loss", "no value"), (3, "metrics must be")):
        with pytest.raises(RequestError) as caught:
            trained.plot(name)
        assert words in str(caught.value)


def test_html_is_escaped(tmp_path: Path) -> None:
    path = write_run(tmp_path / "<script>alert(1)", spec_of(4, env_kwargs={"x": "<i>"}), 100.0)
    run = rollshape.load_run(path)
    html = run._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "data:image/png;base64," in html
    probe = make_probe({64: (1.0, 0.5), 128: (2.0, 0.1)})
    object.__setattr__(probe, "run_dir", "<b>run")
    assert "<b>run" not in probe._repr_html_()


def test_figures_of_a_probe() -> None:
    probe = make_probe({64: (1.0, 0.5), 128: (2.0, 0.1)})
    assert "Squared gradient error" in probe.plot().get_suptitle()
    assert "95 %" in probe.plot("variance").get_supxlabel()
    with pytest.raises(RequestError, match="no figure") as caught:
        probe.plot("surfaces")
    assert "Did you mean surface?" in caught.value.fix


def test_several_runs(tmp_path: Path) -> None:
    runs = rollshape.load_runs(folder_of(tmp_path, {8: 100.0, 64: 200.0}, seeds=3))
    assert len(runs) == 6
    assert sorted(runs.table["num_envs"]) == [8, 8, 8, 64, 64, 64]
    figure = runs.plot()
    assert "95 % intervals over seeds (3 per group)" in figure.get_supxlabel()
    assert len(figure.axes) == 2
    single = rollshape.load_runs(tmp_path / "8-0")
    assert "no interval over seeds" in single.plot().get_supxlabel()
    assert [d.record.plan.num_envs for d in rollshape.diagnose(runs)] == [8, 8, 8, 64, 64, 64]  # sorted by shape
    assert "6 runs" in runs._repr_html_()
    report = rollshape.report(tmp_path)
    assert report.html.exists()


def test_a_run_of_another_library(tmp_path: Path) -> None:
    config = {"n_envs": 4, "n_steps": 16, "batch_size": 32, "n_timesteps": 640}
    writer = RunWriter(tmp_path / "sb3", describe(config, "sb3", version="2.6", env="CartPole-v1"))
    for update in range(1, 4):
        writer.append({"update": update, "timesteps": 64 * update, "episodic_return": 10.0 * update})
    writer.end("done")
    run = rollshape.load_run(tmp_path / "sb3")
    assert run.trainer.name == "Stable-Baselines3"
    assert run.metrics["episodic_return"].tolist() == [10.0, 20.0, 30.0]
    assert "seed" in run.unknown
    assert "seed unknown" in run.plot().get_suptitle()
    assert "Stable-Baselines3 2.6" in run._repr_html_()
    assert run.final_return_interval is None
    with pytest.raises(RequestError) as caught:
        rollshape.evaluate(run)
    assert caught.value.rule == "trainer"


def test_what_is_not_a_run_is_one_message(tmp_path: Path) -> None:
    folder_of(tmp_path / "runs", {8: 100.0}, seeds=2)
    with pytest.raises(RequestError, match="holds 2 runs") as caught:
        rollshape.load_run(tmp_path / "runs")
    assert "load_runs" in caught.value.fix
    for wrong in (tmp_path / "absent", "", "/", "a\0b", 3, None):
        for load in (rollshape.load_run, rollshape.load_runs, rollshape.load_study, rollshape.report):
            with pytest.raises(RequestError):
                load(wrong)
    (tmp_path / "runs" / "8-0" / "run.json").write_text(json.dumps({"spec": 3}))
    with pytest.raises(RequestError):
        rollshape.load_run(tmp_path / "runs" / "8-0")
    with pytest.raises(RequestError, match="no run to draw"):
        rollshape.Runs().plot()


def test_a_run_that_has_not_ended(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", spec_of(4), 100.0)
    document = RunDirectory(path).read()
    document.pop("summary")
    RunDirectory(path).write({**document, "status": "running"})
    run = rollshape.load_run(path)
    assert (run.status, run.final_return, dict(run.summary)) == ("running", None, {})
    assert run.plot().axes


def test_matplotlib_is_not_imported_before_a_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", spec_of(4), 100.0)
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        assert not name.startswith("matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert rollshape.load_run(path).rows


def test_logs_of_other_libraries_are_runs(tmp_path: Path) -> None:
    write_cleanrl(tmp_path / "logs" / "one")
    run = rollshape.load_run(tmp_path / "logs" / "one")
    assert run.trainer.name == "CleanRL"
    assert [row.update for row in run.rows] == [1, 2, 3, 4, 5]
    assert run.summary == {}
    (tmp_path / "logs" / "bad").mkdir()
    (tmp_path / "logs" / "bad" / "events.out.tfevents.1").write_bytes(b"not an event file")
    with pytest.warns(RuntimeWarning, match="bad was left out"):
        runs = rollshape.load_runs(tmp_path / "logs")
    assert [run.trainer.name for run in runs] == ["CleanRL"]
    assert [found.verdict.name for found in rollshape.diagnose(runs)] != []
    with pytest.raises(RequestError, match="num_envs"):
        rollshape.load_run(tmp_path / "logs" / "one", num_envs="eight")
    with pytest.raises(RequestError, match="nvm_envs") as error:
        rollshape.load_run(tmp_path / "logs" / "one", nvm_envs=8)
    assert "Did you mean num_envs?" in error.value.fix
