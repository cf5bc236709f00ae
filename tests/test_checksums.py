"""A document or a file that was changed after it was sealed is recognized."""

import hashlib
import io
import json
from typing import Any

import pytest

from rollshape.checksums import Extent, digest_file, is_intact, seal

DOCUMENT = {"final_return": 0.1 + 0.2, "spec": {"num_envs": 4, "hidden_sizes": [8, 8]}, "note": None, "name": "√"}


def test_a_sealed_document_survives_a_round_trip_through_json() -> None:
    for indent in (None, 2):
        assert is_intact(json.loads(json.dumps(seal(DOCUMENT), indent=indent)))
    assert seal(seal(DOCUMENT)) == seal(DOCUMENT)


@pytest.mark.parametrize(
    "change",
    [{"final_return": 0.3}, {"note": 0}, {"extra": 1}, {"spec": {"num_envs": 4}}, {"checksum": "0" * 64}, {"name": ""}],
)
def test_every_change_is_recognized(change: dict[str, Any]) -> None:
    assert not is_intact({**seal(DOCUMENT), **change})


def test_a_document_without_a_checksum_is_not_intact() -> None:
    assert not is_intact(DOCUMENT)
    assert not is_intact({})


def test_an_extent_covers_what_begins_with_it() -> None:
    extent = Extent(3, hashlib.sha256(b"abc").hexdigest())
    assert extent.covers(b"abc")
    assert extent.covers(b"abcdef")
    assert not extent.covers(b"ab")
    assert not extent.covers(b"abd")


def test_the_digest_of_a_part_of_a_file() -> None:
    file = io.BytesIO(b"x" * 3_000_000 + b"rest")
    assert digest_file(file, 3_000_000) == hashlib.sha256(b"x" * 3_000_000).digest()
    assert file.read() == b"rest"
