"""Messages between the processes of isolated environments: a word and named arrays, as raw bytes on a socket."""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Layout = tuple[tuple[str, str, tuple[int, ...]], ...]  # name, dtype and shape of every array
LENGTHS = struct.Struct("<QQ")  # bytes of the header and of the arrays
ALIGNMENT = 16  # bytes, of the header and of every array


class Frame(NamedTuple):
    """A message."""

    word: str
    arrays: dict[str, NDArray[Any]]


def send_frame(channel: socket.socket, word: str, arrays: Arrays | None = None) -> None:
    """Send a message; blocks until it is in the socket's buffer."""
    values = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in (arrays or {}).items()}
    header = _encode_header(word, tuple((name, array.dtype.str, array.shape) for name, array in values.items()))
    parts, size = [header], 0
    for array in values.values():
        padding = -array.nbytes % ALIGNMENT
        parts += [array.tobytes(), bytes(padding)]
        size += array.nbytes + padding
    channel.sendall(b"".join([LENGTHS.pack(len(header), size), *parts]))


class Receiver:
    """Reads messages. `on_wait` is called whenever the socket's timeout passes without data, and may raise."""

    def __init__(self, channel: socket.socket, on_wait: Callable[[], None] = lambda: None) -> None:
        self._channel, self._on_wait = channel, on_wait

    def receive(self) -> Frame:
        """Return the next message; an EOFError if the other process is gone."""
        header_size, size = LENGTHS.unpack(self._read(LENGTHS.size))
        content = self._read(header_size + size)
        word, layout = _decode_header(bytes(content[:header_size]))
        arrays, offset = {}, header_size
        for name, dtype, shape in layout:
            arrays[name] = np.frombuffer(content, dtype, math.prod(shape), offset).reshape(shape)
            offset += -(-arrays[name].nbytes // ALIGNMENT) * ALIGNMENT
        return Frame(word, arrays)

    def _read(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, count = memoryview(buffer), 0
        while count < size:
            try:
                received = self._channel.recv_into(view[count:])
            except BlockingIOError:
                self._on_wait()
                continue
            except ConnectionResetError:
                received = 0
            if received == 0:
                raise EOFError
            count += received
        return buffer


def pack_json(document: Any) -> Arrays:
    """Return a JSON document as arrays of a message."""
    return {"json": np.frombuffer(json.dumps(document).encode(), np.uint8)}


def unpack_json(frame: Frame) -> Any:
    """Return the JSON document of a message."""
    return json.loads(frame.arrays["json"].tobytes())


@lru_cache(maxsize=64)  # most messages of a pool have the same few layouts
def _encode_header(word: str, layout: Layout) -> bytes:
    header = json.dumps([word, layout]).encode()
    return header + b" " * (-len(header) % ALIGNMENT)


@lru_cache(maxsize=64)
def _decode_header(header: bytes) -> tuple[str, Layout]:
    word, layout = json.loads(header)
    return word, tuple((name, dtype, tuple(shape)) for name, dtype, shape in layout)
