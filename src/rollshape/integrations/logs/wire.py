"""The wire format of Protocol Buffers: the fields of one message. No schema, no recursion.

A message is a sequence of (field number, wire type, value). Nested messages are bytes, decoded by whoever needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rollshape.integrations.logs.reading import DamagedLog

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LONGEST_VARINT = 10  # bytes


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message: an int for varints, bytes for everything else."""
    position, end = 0, len(message)
    while position < end:
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DamagedLog("a field has the number 0")
        if kind == VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if kind == BYTES:
            size, position = _read_varint(message, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise DamagedLog(f"a field has the wire type {kind}")
        if size > end - position:
            raise DamagedLog("a field is longer than its message")
        yield number, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Return (value, position after it)."""
    value = 0
    for index in range(LONGEST_VARINT):
        if position + index >= len(message):
            break
        byte = message[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value & (2**64 - 1), position + index + 1
    raise DamagedLog("a number does not end")


def signed(value: int) -> int:
    """Return an int64 from its varint."""
    return value - 2**64 if value >= 2**63 else value


def unpack(kind: str, content: int | bytes) -> float:
    """Return one number of fixed size, for example `<d`; DamagedLog if the field has another size."""
    if isinstance(content, int) or len(content) != struct.calcsize(kind):
        raise DamagedLog("a number has the wrong size")
    return float(struct.unpack(kind, content)[0])


def message_bytes(content: int | bytes) -> bytes:
    """Return the bytes of a nested message; DamagedLog if the field is a number."""
    if isinstance(content, int):
        raise DamagedLog("a message is a number")
    return content
