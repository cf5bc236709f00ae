import json
import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rollshape.errors import RequestError, RunError
from rollshape.files import LARGEST_FILE, read_text, rewrite_text
from rollshape.geometry.dialects.sources.yamlfile import Edit, edit, parse

FILE = """\
# tuned by hand, do not lose this line
default: &d
  n_steps:   128   # three spaces
  "batch_size": 64
CartPole-v1:
  <<: *d
  n_envs: 8
  policy: 'MlpPolicy'
  n_timesteps: !!float 1e5
  net: {pi: [64, 64], n_epochs: 4}
"""


def test_values_are_plain() -> None:
    values = parse(FILE).values
    assert values["CartPole-v1"] == {
        "n_steps": 128, "batch_size": 64, "n_envs": 8, "policy": "MlpPolicy", "n_timesteps": 1e5,
        "net": {"pi": [64, 64], "n_epochs": 4},
    }  # fmt: skip


scalars = st.one_of(
    st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()
)
documents = st.dictionaries(
    st.text("abcdefgh_", min_size=1), scalars | st.dictionaries(st.text("xyz", min_size=1), scalars), min_size=1
)


@settings(deadline=None)
@given(documents)
def test_values_agree_with_pyyaml(document: dict[str, object]) -> None:
    assert parse(yaml.safe_dump(document)).values == document


def test_numbers_that_pyyaml_takes_for_text_are_numbers() -> None:
    values = parse("a: 5e-4\nb: 1e6\nc: 1_000_000\nd: .5\ne: '5e-4'\nf: 007").values
    assert values == {"a": 5e-4, "b": 1e6, "c": 1_000_000, "d": 0.5, "e": "5e-4", "f": 7}


def test_only_the_characters_of_the_value_change() -> None:
    alone = FILE.split("CartPole-v1")[0]
    text = edit(parse(alone), [Edit(("default", "n_steps"), 256), Edit(("default", "batch_size"), 32)])
    assert text == alone.replace("n_steps:   128 ", "n_steps:   256 ").replace('"batch_size": 64', '"batch_size": 32')


def test_what_is_inherited_is_overridden_not_changed_for_all() -> None:
    text = edit(parse(FILE), [Edit(("CartPole-v1", "n_steps"), 256)])
    assert text == FILE.replace("1e5\n", "1e5\n  n_steps: 256\n")
    with pytest.raises(RequestError, match="cannot be edited safely"):
        edit(parse(FILE), [Edit(("default", "n_steps"), 256)])  # CartPole-v1 would change with it


def test_flow_style_tags_and_windows_lines() -> None:
    text = edit(parse(FILE), [Edit(("CartPole-v1", "net", "n_epochs"), 10), Edit(("CartPole-v1", "n_timesteps"), 5)])
    assert "net: {pi: [64, 64], n_epochs: 10}" in text
    assert "n_timesteps: 5\n" in text
    assert edit(parse("a: 1\r\nb: 2\r\n"), [Edit(("a",), 3)]) == "a: 3\r\nb: 2\r\n"


def test_an_absent_key_is_added_after_its_siblings() -> None:
    added = edit(parse("top:\n  a: 1  # one\n  c: {d: 3}\n"), [Edit(("top", "b"), 2)])
    assert added == "top:\n  a: 1  # one\n  b: 2\n  c: {d: 3}\n"
    assert edit(parse("{a: 1, c: 3}"), [Edit(("b",), 2)]) == "{a: 1, c: 3, b: 2}"
    assert edit(parse("a: 1"), [Edit(("b",), 2)]) == "a: 1\nb: 2"
    with pytest.raises(RequestError, match="cannot be inserted"):
        edit(parse("a: [1]"), [Edit(("b",), 2)])


def test_an_alias_is_replaced_where_it_stands() -> None:
    text = edit(parse("m: &m 64\nn: *m\nk: *m\n"), [Edit(("n",), 32)])
    assert text == "m: &m 64\nn: 32\nk: *m\n"
    with pytest.raises(RequestError, match="anchor"):
        edit(parse("m: &m 64\nn: *m\n"), [Edit(("m",), 32)])
    with pytest.raises(RequestError, match="cannot be edited safely"):
        edit(parse("a: &a {n: 1}\nb: *a\n"), [Edit(("b", "n"), 2)])  # it would change both


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: b: c",
        "\ta: 1",
        "- 1\n- 2",
        "just text",
        "",
        "a: !!python/object/apply:os.system ['true']",
        "!!python/object/new:object {}",
        "a: !custom 1",
        "? [a, b]\n: 1",
        "a: !!int x",
        "a: &a [*a]",
        "x: " + "[" * 500 + "]" * 500,
        "x: " + "[" * 50_000,
        "a: &a [1, 1, 1]\n" + "\n".join(f"{c}: &{c} [{', '.join(['*' + p] * 9)}]" for p, c in pairwise("abcdefghi")),
        "a: \x07",
    ],
)  # fmt: skip
def test_broken_and_hostile_files_are_one_clear_message(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(text, "x.yaml")
    assert caught.value.rule == "file"
    assert "x.yaml" in caught.value.message
    assert "\n" not in caught.value.message


def test_python_tuples_are_sequences() -> None:
    assert parse("a: !!python/tuple [1, 2]").values == {"a": [1, 2]}


@settings(deadline=None)
@given(documents, st.sampled_from([None, 2, "\t"]))
def test_json_is_read_and_edited_too(document: dict[str, object], indent: int | str | None) -> None:
    text = json.dumps(document, indent=indent)
    assert parse(text).values == document
    name = next(iter(document))
    if not isinstance(document[name], dict):
        assert json.loads(edit(parse(text), [Edit((name,), 7)])) == {**document, name: 7}


def test_reading_files(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "absent.yaml", "No such file"), (tmp_path, "not a regular file")):
        with pytest.raises(RequestError, match=problem):
            read_text(str(path))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RequestError, match="not UTF-8"):
        read_text(str(binary))
    with pytest.raises(RequestError, match="not a regular file"):
        read_text("a\0b")
    (tmp_path / "large").write_text("a" * (LARGEST_FILE + 1))
    with pytest.raises(RequestError, match="larger"):
        read_text(str(tmp_path / "large"))


def test_writing_is_atomic_and_keeps_mode_and_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    target.write_text("a: 1\n")
    target.chmod(0o640)
    link.symlink_to(target)
    rewrite_text(link, "a: 2\n")
    assert link.is_symlink()
    assert target.read_text() == "a: 2\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left"):
        rewrite_text(target, "a: 3\n")
    assert target.read_text() == "a: 2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "real.yaml"]


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "x.yaml"
    target.write_text("a: 1\n")
    target.chmod(0o444)
    with pytest.raises(RequestError, match="read-only"):
        rewrite_text(target, "a: 2\n")
    assert target.read_text() == "a: 1\n"


def test_null_is_a_value() -> None:
    text = edit(parse("a: 1  # one\nb: 2\n"), [Edit(("a",), None), Edit(("c",), None)])
    assert text == "a: null  # one\nb: 2\nc: null\n"
    assert json.loads(edit(parse('{"a": 1}'), [Edit(("a",), None)])) == {"a": None}
