from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources import Edit, load
from rollshape.geometry.dialects.sources.commandline import is_command
from rollshape.geometry.dialects.sources.commandline import parse as parse_command
from rollshape.geometry.dialects.sources.load import detect, parse_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python ppo.py --num_envs=8 --num-steps 16", {"num_envs": 8, "num_steps": 16}),
        ("python ppo.py --lr 3e-4 --track --no-cuda", {"lr": 3e-4, "track": True, "cuda": False}),
        ("python ppo.py --target-kl None --name 'a b'", {"target_kl": None, "name": "a b"}),
        ("python ppo.py --offset -3 --sizes 64 64", {"offset": -3, "sizes": [64, 64]}),
        ("A=1 python ff_ppo.py arch.num=4 +system.x=true ++y=2", {"arch": {"num": 4}, "system": {"x": True}, "y": 2}),
        ("python ppo.py \\\n  --num-envs 8", {"num_envs": 8}),
        ("n_envs=8 n_steps=4", {"n_envs": 8, "n_steps": 4}),
        (
            "torchrun --nproc_per_node 2 ppo.py --num-envs 8",
            {"num_envs": 8, "launcher": {"nproc_per_node": 2}},
        ),
        ("./isaaclab.sh -p ppo.py --task X --num_envs 64", {"task": "X", "num_envs": 64, "launcher": {"p": True}}),
    ],
)
def test_command_lines(text: str, expected: dict[str, Any]) -> None:
    assert is_command(text)
    assert parse_command(text).values == expected


def test_the_script_has_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("class Args:\n    num_envs: int = 8\n    num_steps: int = 32\n")
    source = load("python mine.py --num-envs 4")
    assert source.values == {"num_envs": 4, "num_steps": 32}
    assert "defaults of mine.py" in source.notes[0]


def test_a_file_name_means_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=3 --x.yaml").write_text("n_envs: 4\n")
    assert load("lr=3 --x.yaml").values == {"n_envs": 4}
    for name in ("absent.yaml", "my absent file.yaml", "x" * 300):
        with pytest.raises(RequestError, match="Cannot read"):
            load(name)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a: 1\nb: [2]\n", "YAML"),
        ('{"a": 1}', "YAML"),
        ("[a]\nb = 1\nc = 'x'\n", "TOML"),
        ("[a]\nb = auto\n", "INI"),
        ("a = 1\n", "TOML"),
        ("import os\nclass A:\n    n = 1\n", "Python"),
        ("@dataclass\nclass A:\n    n: int = 1\n", "Python"),
        ("python ppo.py --num-envs 8\n", "command"),
        ("command: python ppo.py --num-envs 8\n", "YAML"),
    ],
)
def test_detection_by_content(text: str, kind: str) -> None:
    assert detect(text) == kind


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.pt", b"PK", "is a PyTorch checkpoint"),
        ("x.pkl", b"\x80", "is a pickle"),
        ("x.md", b"# a", "is Markdown text"),
        ("x.sh", b"python", "is a shell script"),
        ("x.txt", b"just text", "is not a config that I recognize"),
        ("x.py", b"print(1)", "is Python without a config that I know"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=message) as caught:
        load(str(tmp_path / name))
    assert "YAML." not in caught.value.fix


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("")
    with pytest.raises(RequestError, match=r"folder without a config .* \(it contains notes\)"):
        load(str(tmp_path))


def test_tags_are_inert() -> None:
    text = """
a: !!python/object/apply:collections.OrderedDict
- - [n, 4]
  - [m, 5]
b: !!python/name:os.system ''
c: !!python/tuple [1, 2]
d: !!python/object:some.Class {x: 1}
e: !!python/object/apply:numpy.core.multiarray.scalar [1, 2]
"""
    assert parse_text(text, "x.yaml").values == {
        "a": {"n": 4, "m": 5}, "b": "os.system", "c": [1, 2], "d": {"x": 1}, "e": [1, 2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 4\nb: ${a}", 4),
        ("x: {a: 4, y: {b: 1}}\nb: ${x.a}", 4),
        ("x: {a: 4}\nb: ${x[a]}", 4),
        ("a: 4\nb: n${a}", "n4"),
        ("n: ''\nb: ${resolve_default:16,${.n}}", 16),
        ("n: 8\nb: ${resolve_default:16,${.n}}", 8),
        ("n: false\nb: ${if:${n},1,2}", 2),
        ("a: ${b}\nb: ${a}", "${a}"),
        ("b: ${oc.env:HOME}", "${oc.env:HOME}"),
        ("b: ${absent.key}", "${absent.key}"),
        ("b: ${oc.select:absent,3}", 3),
        ("b: ${...........x}", "${...........x}"),
        ("b: ${unclosed", "${unclosed"),
        ("b: " + "${" * 5000 + "}" * 5000, "${" * 5000 + "}" * 5000),
    ],
    ids=range(14),
)
def test_interpolation(text: str, expected: Any) -> None:
    assert parse_text(text, "x.yaml").values["b"] == expected


def test_relative_references_count_levels() -> None:
    text = "n: 1\nx:\n  n: 2\n  y:\n    n: 3\n    a: ${.n}\n    b: ${..n}\n    c: ${...n}\n"
    level = parse_text(text, "x.yaml").values["x"]["y"]
    assert (level["a"], level["b"], level["c"]) == (3, 2, 1)


def test_a_defaults_list(tmp_path: Path) -> None:
    (tmp_path / "arch").mkdir()
    (tmp_path / "arch" / "small.yaml").write_text("num_envs: 8\nseed: 1\n")
    (tmp_path / "over.yaml").write_text("# @package _global_\narch:\n  seed: 3\n")
    main = tmp_path / "main.yaml"
    main.write_text("defaults:\n  - arch: small\n  - over\n  - _self_\nlr: 0.1\n")
    source = load(str(main))
    assert source.values == {"arch": {"num_envs": 8, "seed": 3}, "lr": 0.1}
    with pytest.raises(RequestError, match=r"arch.num_envs is defined in another file .*small.yaml"):
        source.edit([Edit(("arch", "num_envs"), 4)])
    assert source.edit([Edit(("lr",), 0.2)]) == main.read_text().replace("0.1", "0.2")


def test_a_file_of_a_defaults_list_that_is_missing(tmp_path: Path) -> None:
    for text in ("defaults:\n  - arch: absent\nlr: 1\n", "defaults:\n  - ../../etc/passwd\nlr: 1\n"):
        (tmp_path / "main.yaml").write_text(text)
        assert "is not beside it" in load(str(tmp_path / "main.yaml")).values.incomplete  # type: ignore[attr-defined]
