"""Event files of TensorBoard: records with masked CRC32C, each an Event of Protocol Buffers, decoded here.

Scalars are read in both forms (`simple_value`, and a tensor with one element), texts, and the hyperparameters that
`add_hparams` stores. Everything else (images, histograms, graphs) is skipped. A file that ends in the middle of a
record, as after kill -9, is read up to there; so is a damaged one. Both are noted.

Field numbers: tensorboard/compat/proto/{event,summary,tensor}.proto and tensorboard/plugins/hparams/plugin_data.proto.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import LONGEST_TAG, DamagedLog, decode, read_bytes
from rollshape.integrations.logs.series import LogFile
from rollshape.integrations.logs.wire import message_bytes, read_fields, signed, unpack

_POLYNOMIAL = 0x82F63B78  # CRC32C, reflected
_MASK_DELTA = 0xA282EAD8
_HEADER, _FOOTER = 12, 4  # bytes: length and its CRC; CRC of the data
_NUMBERS = {  # of a TensorProto by dtype: the field of the values, the format in tensor_content
    1: (5, "<f"), 2: (6, "<d"), 3: (7, "<i"), 9: (10, "<q"), 19: (13, "<e"),
}  # fmt: skip
_STRING = 7  # dtype


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def masked_crc32c(content: bytes) -> int:
    """Return the checksum of a TFRecord: CRC32C, rotated by 15 bits, plus a constant."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def read_events(path: Path) -> LogFile:
    """Read an event file as far as it is whole; a RequestError if it does not begin with a whole record."""
    content, log = read_bytes(path), LogFile(path)
    count = 0
    if not content:
        log.notes.append(f"{path.name} is empty")
        return log
    try:
        for record in read_records(content):
            _read_event(record, log)
            count += 1
    except DamagedLog as error:
        if count == 0:
            raise RequestError(
                "log", f"{path} is not a TensorBoard event file: {error}.", "Give the folder of a run."
            ) from None
        log.notes.append(f"{path.name}: {error}; {count:,} records before it were read")
    return log


def read_records(content: bytes) -> Iterator[bytes]:
    """Yield the data of the records of a TFRecord file; DamagedLog where a record is incomplete or changed."""
    position, size = 0, len(content)
    while position < size:
        left = size - position
        if left < _HEADER:
            raise DamagedLog(f"the last {left} bytes are an incomplete record")
        length, crc = struct.unpack_from("<QI", content, position)
        if masked_crc32c(content[position : position + 8]) != crc:
            raise DamagedLog(f"damaged at byte {position:,} (wrong checksum), {left:,} bytes are not read")
        if length > left - _HEADER - _FOOTER:
            raise DamagedLog(f"the last {left:,} bytes are an incomplete record")
        data = content[position + _HEADER : position + _HEADER + length]
        (crc,) = struct.unpack_from("<I", content, position + _HEADER + length)
        if masked_crc32c(data) != crc:
            raise DamagedLog(f"damaged at byte {position:,} (wrong checksum), {left:,} bytes are not read")
        yield data
        position += _HEADER + length + _FOOTER


def _read_event(record: bytes, log: LogFile) -> None:
    """Add what an Event holds: wall_time 1, step 2, summary 5."""
    time, step, summary = math.nan, 0, b""
    for number, value in read_fields(record):
        if number == 1:
            time = unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = signed(value)
        elif number == 5:
            summary = message_bytes(value)
    if math.isfinite(time) and time > 0:
        log.see_time(time)
    for number, value in read_fields(summary):
        if number == 1:
            _read_value(message_bytes(value), step, time, log)


def _read_value(message: bytes, step: int, time: float, log: LogFile) -> None:
    """Add a Summary.Value: tag 1, simple_value 2, tensor 8, metadata 9."""
    tag, scalar, tensor, metadata = "", None, b"", b""
    for number, value in read_fields(message):
        if number == 1:
            tag = decode(message_bytes(value), LONGEST_TAG + 1)
        elif number == 2:
            scalar = unpack("<f", value)
        elif number == 8:
            tensor = message_bytes(value)
        elif number == 9:
            metadata = message_bytes(value)
    if tag.startswith("_hparams_/"):
        log.config |= _read_hparams(metadata)
        return
    if scalar is not None:
        log.add(tag, step, time, scalar)
        return
    content = _read_tensor(tensor)
    if isinstance(content, float):
        log.add(tag, step, time, content)
    elif isinstance(content, str) and len(log.texts) < 1000:
        log.texts.setdefault(tag, content)


def _read_tensor(message: bytes) -> float | str | None:
    """Return the value of a TensorProto with one element, a number or text; None for anything else.

    dtype 1, tensor_content 4, string_val 8; the other fields hold numbers, packed or not.
    """
    fields: dict[int, list[int | bytes]] = {}
    for number, value in read_fields(message):
        fields.setdefault(number, []).append(value)
    dtype = fields.get(1, [0])[0]
    if dtype == _STRING:
        texts = fields.get(8, [])
        return decode(message_bytes(texts[0])) if len(texts) == 1 else None
    if not isinstance(dtype, int) or dtype not in _NUMBERS:
        return None
    number, kind = _NUMBERS[dtype]
    [content] = fields.get(4, [b""])[:1]
    if isinstance(content, bytes) and len(content) == struct.calcsize(kind):
        return unpack(kind, content)
    values = fields.get(number, [])
    return _one_number(values[0], kind) if len(values) == 1 else None


def _one_number(value: int | bytes, kind: str) -> float | None:
    """Return a repeated field with one element: packed numbers of fixed size, or varints."""
    if kind in ("<f", "<d"):
        return unpack(kind, value) if isinstance(value, bytes) and len(value) == struct.calcsize(kind) else None
    if isinstance(value, bytes):  # packed varints
        packed = [number for _, number in read_fields(b"\x08" + value)] if 0 < len(value) <= 10 else []
        if len(packed) != 1 or not isinstance(packed[0], int):
            return None
        value = packed[0]
    if kind == "<e":  # the bits of a half
        return unpack("<e", struct.pack("<H", value & 0xFFFF))
    return float(signed(value))


def _read_hparams(metadata: bytes) -> dict[str, Any]:
    """Return hyperparameters: metadata.plugin_data(1).content(2) → session_start_info(3).hparams(1), a map."""
    values: dict[str, Any] = {}
    for message in _nested(metadata, 1, 2, 3, 1):
        name, value = "", None
        for number, content in read_fields(message):
            if number == 1:
                name = decode(message_bytes(content), LONGEST_TAG)
            elif number == 2:
                value = _plain_value(message_bytes(content))
        if name and value is not None and len(values) < 1000:
            values[name] = value
    return values


def _nested(message: bytes, *path: int) -> Iterator[bytes]:
    """Yield the messages at a path of field numbers."""
    for number, value in read_fields(message):
        if number == path[0]:
            if len(path) == 1:
                yield message_bytes(value)
            else:
                yield from _nested(message_bytes(value), *path[1:])


def _plain_value(message: bytes) -> Any:
    """Return a google.protobuf.Value that is a number (2), text (3) or a bool (4)."""
    for number, value in read_fields(message):
        if number == 2:
            real = unpack("<d", value)
            return int(real) if math.isfinite(real) and real == int(real) else real
        if number == 3:
            return decode(message_bytes(value))
        if number == 4 and isinstance(value, int):
            return bool(value)
    return None
