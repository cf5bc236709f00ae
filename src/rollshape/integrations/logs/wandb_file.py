"""Offline files of Weights & Biases (`run-ID.wandb`): LevelDB log framing around records of Protocol Buffers.

The file begins with `:W&B`, the magic number 0xBEE1 and version 0. Blocks have 32,768 bytes; a record is split into
chunks, each with CRC32 (of type and data), length and type (1 full, 2 first, 3 middle, 4 last). Field numbers:
wandb/proto/wandb_internal.proto of wandb 0.31.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.integrations.logs.reading import LONGEST_TAG, LONGEST_TEXT, MOST_POINTS, DamagedLog, decode, read_bytes
from rollshape.integrations.logs.series import LogFile
from rollshape.integrations.logs.wire import message_bytes, read_fields

_FILE_HEADER = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK, _CHUNK_HEADER = 32_768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HISTORY, _CONFIG, _RUN = 2, 5, 17  # fields of a Record
AXES = ("global_step", "_step")  # the step of a row: what TensorBoard's step is synced as, else W&B's own
EXPORT = "Export the run as CSV (wandb: the ⋮ menu of a chart, or run.history().to_csv), and import that."


def read_wandb(path: Path) -> LogFile:
    """Read an offline file as far as it is whole; a RequestError if it has another format."""
    content, log = read_bytes(path), LogFile(path)
    if not content.startswith(_FILE_HEADER):
        raise RequestError("log", f"{path} is not an offline file of W&B in the format that is known.", EXPORT)
    count, rows = 0, list[dict[str, Any]]()
    try:
        for record in read_chunks(content):
            _read_record(record, log, rows)
            count += 1
    except DamagedLog as error:
        if count == 0:
            raise RequestError("log", f"{path} cannot be read: {error}.", EXPORT) from None
        log.notes.append(f"{path.name}: {error}; {count:,} records before it were read")
    add_rows(log, rows)
    return log


def read_chunks(content: bytes) -> Iterator[bytes]:
    """Yield the records; DamagedLog where one is incomplete or changed."""
    position, parts, size = len(_FILE_HEADER), list[bytes](), len(content)
    while position < size:
        room = _BLOCK - position % _BLOCK
        if room < _CHUNK_HEADER:  # the rest of a block is padding
            position += room
            continue
        if size - position < _CHUNK_HEADER:
            raise DamagedLog(f"the last {size - position} bytes are an incomplete record")
        crc, length, kind = struct.unpack_from("<IHB", content, position)
        data = content[position + _CHUNK_HEADER : position + _CHUNK_HEADER + length]
        if length > room - _CHUNK_HEADER or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            raise DamagedLog(f"damaged at byte {position:,}, {size - position:,} bytes are not read")
        if len(data) < length:
            raise DamagedLog(f"the last {size - position:,} bytes are an incomplete record")
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != crc or (kind in (_FULL, _FIRST)) != (not parts):
            raise DamagedLog(f"damaged at byte {position:,} (wrong checksum), {size - position:,} bytes are not read")
        parts.append(data)
        position += _CHUNK_HEADER + length
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts = []
    if parts:
        raise DamagedLog("the last record is incomplete")


def _read_record(record: bytes, log: LogFile, rows: list[dict[str, Any]]) -> None:
    for number, value in read_fields(record):
        if number == _HISTORY:
            rows.append(dict(_items(message_bytes(value))))
            _check_number(log, rows)
        elif number == _CONFIG:
            log.config |= dict(_items(message_bytes(value)))
        elif number == _RUN:
            for inner, content in read_fields(message_bytes(value)):
                if inner == 4:
                    log.config |= dict(_items(message_bytes(content)))


def _items(message: bytes) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a HistoryRecord or ConfigRecord: items (1) with key 1, nested_key 2 and value_json 16."""
    for number, value in read_fields(message):
        if number != 1:
            continue
        key, nested, text = "", list[str](), b""
        for inner, content in read_fields(message_bytes(value)):
            if inner == 1:
                key = decode(message_bytes(content), LONGEST_TAG + 1)
            elif inner == 2:
                nested.append(decode(message_bytes(content), LONGEST_TAG + 1))
            elif inner == 16:
                text = message_bytes(content)
        name = key or ".".join(nested)
        if name and name != "_wandb" and len(text) <= LONGEST_TEXT:
            try:
                yield name, json.loads(text)
            except (ValueError, RecursionError):
                continue


def _check_number(log: LogFile, rows: list[dict[str, Any]]) -> None:
    log.points += len(rows[-1])
    if log.points > MOST_POINTS:
        raise RequestError("log", f"{log.path} has more than {MOST_POINTS:,} values.", EXPORT)


def add_rows(log: LogFile, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add the rows of a history by their step; values that are no numbers (tables, images) are skipped.

    If some rows have the step of TensorBoard, `global_step`, the others cannot be placed beside them and are left out.
    """
    numbers = [{name: float(value) for name, value in row.items() if _is_real(value)} for row in rows]
    log.axis = next((name for name in AXES if any(name in row for row in numbers)), AXES[-1])
    log.points = 0
    for row in numbers:
        step, time = row.get(log.axis, math.nan), row.get("_timestamp", math.nan)
        if math.isfinite(time):
            log.see_time(time)
        if math.isfinite(step):
            for name, value in row.items():
                if not name.startswith("_") and name not in AXES:
                    log.add(name, step, time, value)


def _is_real(value: Any) -> bool:
    """Return whether a value of a history is a number that a float can hold."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)
