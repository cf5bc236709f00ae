"""Studies in Python: run, resume, load, plot, and refuse what other processes cannot create."""

from pathlib import Path
from typing import Any

import pytest
from toy_envs import Walk

import rollshape
from rollshape.errors import RequestError

STUDY: dict[str, Any] = {
    "title": "Two <shapes>",
    "env": "CartPole-v1",
    "fixed": {"rollout_size": 64, "total_timesteps": 256, "hidden_sizes": [4], "num_shards": 1},
    "grid": {"num_envs": [2, 8]},
    "seeds": 2,
}


def test_a_study(tmp_path: Path) -> None:
    events: list[Any] = []
    out = tmp_path / "shapes"
    result = rollshape.study(STUDY, out=out, jobs=2, no_probes=True, on_event=events.append)
    assert result.is_finished
    assert events
    assert result.report is not None
    assert result.report.html.exists()
    assert len(result.runs) == 4
    assert result.points["num_envs"].tolist() == [2, 8]
    assert (result.points["low"] <= result.points["final_return"]).all()
    figure = result.plot()
    assert figure.get_suptitle() == "Two <shapes>"
    assert "95 % intervals over seeds (2 per group)" in figure.get_supxlabel()
    html = result._repr_html_()
    assert "Two &lt;shapes&gt;" in html
    assert "2 of 2 trials" in html

    loaded = rollshape.load_study(out)
    assert loaded.results == result.results
    again: list[Any] = []
    assert rollshape.study(STUDY, out=out, no_probes=True, on_event=again.append).is_finished
    assert again == []  # nothing was left to run


def test_wrong_requests_are_one_message(tmp_path: Path) -> None:
    for study, options, words in (
        ("tradeof", {}, "Did you mean tradeoff"),
        ({"grids": {}}, {}, "Did you mean grid"),
        (STUDY, {"seed": 3}, "Did you mean seeds"),
        (STUDY, {"jobs": 0}, "jobs must be at least 1"),
        (STUDY, {"env": Walk()}, "other processes"),
        (STUDY, {"env": 3}, "env must be"),
        (3, {}, "study must be"),
    ):
        with pytest.raises(RequestError) as caught:
            rollshape.study(study, **{"out": tmp_path / "out", **options})
        assert words in str(caught.value), str(caught.value)
    assert not (tmp_path / "out").exists()
