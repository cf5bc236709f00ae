"""Event files: what real writers write, damage of every kind, and random bytes."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrations.log_files import cleanrl_events, event, event_file, part, scalar, tf_record
from rollshape.errors import RequestError
from rollshape.integrations.logs import reading, series
from rollshape.integrations.logs.events import masked_crc32c, read_events
from rollshape.integrations.logs.series import LogFile

VALID = cleanrl_events([1, 2])
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(folder: Path, content: bytes) -> LogFile:
    path = folder / "events.out.tfevents.1"
    path.write_bytes(content)
    return read_events(path)


def points(log: LogFile) -> dict[str, list[tuple[float, float, float]]]:
    return {tag: list(values) for tag, values in log.scalars.items()}


def test_the_checksum_is_crc32c() -> None:
    unmasked = 0xE3069283  # of "123456789", the check value of CRC32C
    assert masked_crc32c(b"123456789") == ((unmasked >> 15 | unmasked << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_file_of_a_real_writer(tmp_path: Path) -> None:
    tensorboardx = pytest.importorskip("tensorboardX")
    writer = tensorboardx.SummaryWriter(str(tmp_path))
    for step in range(20):
        writer.add_scalar("loss", step / 3, step)
    writer.add_text("note", "|param|value|")
    writer.add_histogram("weights", [1.0, 2.0, 3.0], 1)
    writer.add_hparams({"n_steps": 128, "lr": 0.001, "env": "CartPole-v1", "flag": True}, {"score": 3.0}, name="h")
    writer.close()
    [path] = tmp_path.glob("*tfevents*")
    log = read_events(path)
    assert list(log.scalars["loss"].values) == pytest.approx([step / 3 for step in range(20)])
    assert list(log.scalars["loss"].steps) == list(range(20))
    assert log.texts["note/text_summary"] == "|param|value|"
    assert not log.notes
    [path] = (tmp_path / "h").glob("*tfevents*")
    assert read_events(path).config == {"n_steps": 128, "lr": 0.001, "env": "CartPole-v1", "flag": True}


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (part(1, 1) + part(4, struct.pack("<f", 1.5)), 1.5),
        (part(1, 2) + part(4, struct.pack("<d", -2.5)), -2.5),
        (part(1, 1) + part(5, struct.pack("<f", 0.25)), 0.25),  # packed
        (part(1, 1) + part(5, 0.25, "<f"), 0.25),  # not packed
        (part(1, 9) + part(10, 7), 7.0),
        (part(1, 9) + part(10, b"\x07"), 7.0),
        (part(1, 3) + part(7, -3), -3.0),
        (part(1, 19) + part(4, struct.pack("<e", 0.5)), 0.5),
        (part(1, 1) + part(5, struct.pack("<ff", 1, 2)), None),  # two elements
        (part(1, 14) + part(4, b"ab"), None),  # bfloat16
        (b"", None),
    ],
)
def test_scalars_in_tensor_form(tmp_path: Path, tensor: bytes, value: float | None) -> None:
    log = read(tmp_path, event_file([event(3, 1001.0, part(1, b"loss") + part(8, tensor))]))
    assert points(log) == ({} if value is None else {"loss": [(3, 1001.0, value)]})


def test_values_that_are_not_finite_and_negative_steps_are_kept(tmp_path: Path) -> None:
    log = read(tmp_path, event_file([event(-5, 1001.0, scalar("a", math.nan), scalar("b", math.inf))]))
    assert math.isnan(log.scalars["a"].values[0])
    assert list(log.scalars["b"].steps) == [-5]


def test_a_tag_that_is_not_utf_8(tmp_path: Path) -> None:
    log = read(tmp_path, event_file([event(1, 1001.0, scalar(b"\xff\xfeloss", 1.0))]))
    assert list(log.scalars) == ["��loss"]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_truncated_file_is_read_up_to_the_last_whole_record(tmp_path: Path, cut: int) -> None:
    records = [event(step, 1000.0 + step, scalar("loss", step)) for step in range(1, 6)]
    whole = event_file(records)
    log = read(tmp_path, whole[:-cut])
    assert list(log.scalars["loss"].values) in ([1, 2, 3, 4], [1, 2, 3])
    assert "incomplete record" in log.notes[0]


def test_a_changed_byte_ends_the_reading_with_a_note(tmp_path: Path) -> None:
    whole = bytearray(event_file([event(step, 1000.0, scalar("loss", step)) for step in range(1, 6)]))
    whole[-20] ^= 1
    log = read(tmp_path, bytes(whole))
    assert list(log.scalars["loss"].values) == [1, 2, 3, 4]
    assert "wrong checksum" in log.notes[0]


@pytest.mark.parametrize("content", [b"x", b"not an event file at all, but text", bytes(100), b"\xff" * 64])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RequestError, match="not a TensorBoard event file"):
        read(tmp_path, content)


def test_an_empty_file_has_no_values(tmp_path: Path) -> None:
    assert read(tmp_path, b"").notes == ["events.out.tfevents.1 is empty"]


def test_a_huge_length_is_not_allocated(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**62)
    record = length + struct.pack("<I", masked_crc32c(length))
    log = read(tmp_path, event_file([event(1, 1001.0, scalar("a", 1.0))]) + record)
    assert "incomplete record" in log.notes[0]


def test_nested_messages_need_no_recursion(tmp_path: Path) -> None:
    message = b""
    for _ in range(5000):
        message = part(1, message)
    log = read(tmp_path, event_file([event(1, 1001.0, part(9, message) + part(1, b"_hparams_/x"))]))
    assert points(log) == {}


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = event_file([event(step, 1000.0, scalar(f"tag{step}", 1.0)) for step in range(30)])
    monkeypatch.setattr(series, "MOST_TAGS", 20)
    with pytest.raises(RequestError, match="more than 20 tags"):
        read(tmp_path, content)
    monkeypatch.setattr(series, "MOST_TAGS", 100)
    monkeypatch.setattr(series, "MOST_POINTS", 10)
    with pytest.raises(RequestError, match="more than 10 values"):
        read(tmp_path, content)
    with pytest.raises(RequestError, match="is larger than"):
        reading.read_bytes(tmp_path / "events.out.tfevents.1", limit=100)


@QUICK
@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(tmp_path: Path, content: bytes) -> None:
    try:
        log = read(tmp_path, content)
    except RequestError:
        return
    assert not log.scalars


@QUICK
@given(payload=st.binary(max_size=80))
def test_random_messages_in_whole_records(tmp_path: Path, payload: bytes) -> None:
    """The checksum is right and the message is not: it is noted, or skipped, and what came before is kept."""
    log = read(tmp_path, event_file([event(1, 1001.0, scalar("a", 1.0))]) + tf_record(payload))
    assert points(log)["a"][0] == (1, 1001.0, 1.0)


@QUICK
@given(position=st.integers(0, len(VALID) - 1), byte=st.integers(0, 255), keep=st.integers(0, len(VALID)))
def test_a_mutated_file_gives_a_prefix_of_the_whole_one(tmp_path: Path, position: int, byte: int, keep: int) -> None:
    whole = points(read(tmp_path, VALID))
    content = bytearray(VALID)
    content[position] = byte
    try:
        log = read(tmp_path, bytes(content[:keep]))
    except RequestError:
        return
    for tag, values in points(log).items():
        assert values == whole[tag][: len(values)]
    if keep == len(VALID) and content[position] != VALID[position]:
        assert log.notes
