"""A journal recognizes lines that were changed, removed or moved; the next append removes a torn last line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rollshape.errors import RequestError
from rollshape.studies.journal import TAIL, Journal

EVENTS = [{"event": "study", "name": "x" * (2 * TAIL)}, *({"event": "end", "trial": f"{i}"} for i in range(5))]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    written = Journal(tmp_path / "journal.jsonl")
    for event in EVENTS:
        written.append(event)
    return written


def trials(journal: Journal) -> list[str]:
    return [event["trial"] for event in journal.events() if event["event"] == "end"]


def test_events_come_back_and_new_ones_only_once(journal: Journal) -> None:
    assert trials(journal) == ["0", "1", "2", "3", "4"]
    assert len(journal.new_events()) == 6
    assert journal.new_events() == []
    Journal(journal.path).append({"event": "end", "trial": "5"})
    assert [event["trial"] for event in journal.new_events()] == ["5"]


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_torn_last_line_is_skipped_and_removed(kept: int, journal: Journal) -> None:
    *lines, last = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join(lines) + last[:kept])
    assert len(journal.new_events()) == 5
    journal.append({"event": "end", "trial": "new"})
    assert [event["trial"] for event in journal.new_events()] == ["new"]
    assert trials(journal) == ["0", "1", "2", "3", "new"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda lines: [*lines[:2], lines[2].replace(b'"1"', b'"7"'), *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], lines[2].replace(b"}", b")"), *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], b"\n", *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], b'{"event": "end", "trial": "1"}\n', *lines[3:]], "line 3 was changed"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 3 does not continue"),
        (lambda lines: lines[1:], "line 1 does not continue"),
        (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "line 3 does not continue"),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "line 4 does not continue"),
    ],
)
def test_damage_is_named(damage: Callable[[list[bytes]], list[bytes]], problem: str, journal: Journal) -> None:
    journal.path.write_bytes(b"".join(damage(journal.path.read_bytes().splitlines(keepends=True))))
    before = journal.path.read_bytes()
    with pytest.raises(RequestError, match=problem) as caught:
        list(journal.events())
    assert "another --out" in caught.value.fix
    assert journal.path.read_bytes() == before


def test_nothing_is_appended_to_a_damaged_last_line(journal: Journal) -> None:
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-3] + b"x}\n")
    with pytest.raises(RequestError, match="its last line was changed"):
        journal.append({"event": "end", "trial": "5"})
    assert len(journal.path.read_bytes()) == len(content)


def test_lines_are_plain_json(journal: Journal) -> None:
    assert json.loads(journal.path.read_text().splitlines()[1])["trial"] == "0"
