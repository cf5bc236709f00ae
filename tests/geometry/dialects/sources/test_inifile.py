from pathlib import Path

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources import Edit, load
from rollshape.geometry.dialects.sources.inifile import parse_ini, parse_toml

INI = "# kept\n[vec]\nnum_envs=4\n\n[train]\nbatch_size = auto\nminibatch_size   =   1_024\nname = run 7\nlr = 1e-3\n"
TOML = 'a = 1 # one\n[x.y]\nn = 1_000\nlist = [1, 2]\nt = {m = 3}\ns = "5"\nd.e = 6\n'


def test_ini_values_are_literals() -> None:
    assert parse_ini(INI, "x.ini").values == {
        "vec": {"num_envs": 4},
        "train": {"batch_size": "auto", "minibatch_size": 1024, "name": "run 7", "lr": 1e-3},
    }


def test_ini_edits_keep_everything_else() -> None:
    edits = [Edit(("train", "minibatch_size"), 512), Edit(("train", "batch_size"), 4096), Edit(("vec", "num_envs"), 8)]
    assert parse_ini(INI, "x.ini").edit(edits) == (
        INI.replace("1_024", "512").replace("auto", "4096").replace("num_envs=4", "num_envs=8")
    )
    added = parse_ini(INI, "x.ini").edit([Edit(("vec", "seed"), 7), Edit(("train", "bptt_horizon"), 64)])
    assert added == INI.replace("num_envs=4\n", "num_envs=4\nseed = 7\n") + "bptt_horizon = 64\n"
    with pytest.raises(RequestError, match="is not in the file") as caught:
        parse_ini(INI, "x.ini").edit([Edit(("rnn", "size"), 64)])
    assert "Set rnn.size to 64 by hand" in caught.value.fix


def test_defaults_of_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / "ocean").mkdir()
    (tmp_path / "default.ini").write_text("[vec]\nnum_envs = 2\n[train]\nbptt_horizon = 64\n")
    (tmp_path / "ocean" / "x.ini").write_text("[vec]\nnum_envs = 8\n")
    source = load(str(tmp_path / "ocean" / "x.ini"))
    assert source.values == {"vec": {"num_envs": 8}, "train": {"bptt_horizon": 64}}
    assert "default.ini" in source.notes[0]
    with pytest.raises(RequestError, match="is not in the file"):
        source.edit([Edit(("train", "bptt_horizon"), 32)])


def test_toml_edits() -> None:
    source = parse_toml(TOML, "x.toml")
    edited = source.edit([Edit(("a",), 2), Edit(("x", "y", "n"), 7), Edit(("x", "y", "d", "e"), 8)])
    assert edited == TOML.replace("a = 1 ", "a = 2 ").replace("1_000", "7").replace("e = 6", "e = 8")
    for path in (("x", "y", "t", "m"), ("x", "y", "s"), ("z", "n")):
        with pytest.raises(RequestError, match=r"by hand|is not"):
            source.edit([Edit(path, 9)])
    assert source.edit([Edit(("b",), 9)]) == TOML.replace("# one\n", "# one\nb = 9\n")


@pytest.mark.parametrize("text", ["[a\nb = 1", "b = 1", "", "[a]\nb"])
def test_broken_ini(text: str) -> None:
    with pytest.raises(RequestError, match=r"x\.ini") as caught:
        parse_ini(text, "x.ini")
    assert "YAML" not in str(caught.value)


def test_broken_toml() -> None:
    with pytest.raises(RequestError, match=r"x\.toml: not a valid TOML file"):
        parse_toml("a = ", "x.toml")
