"""Log files for tests, written by code that shares nothing with the readers, or by the real writers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TABLE = {
    "exp_name": "ppo", "env_id": "CartPole-v1", "seed": 3, "num_envs": 4, "num_steps": 16, "num_minibatches": 2,
    "update_epochs": 3, "total_timesteps": 320, "learning_rate": 0.00025, "clip_coef": 0.2, "target_kl": None,
}  # fmt: skip


def crc32c(data: bytes) -> int:
    """CRC32C bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def tf_record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    result = b""
    while True:
        low, value = value & 0x7F, value >> 7
        result += bytes([low | (0x80 if value else 0)])
        if not value:
            return result


def part(number: int, content: bytes | int | float, kind: str = "") -> bytes:
    """One field of a message: bytes, a varint, or a number of fixed size by its struct format."""
    if kind:
        return varint(number << 3 | (5 if struct.calcsize(kind) == 4 else 1)) + struct.pack(kind, content)
    if isinstance(content, bytes):
        return varint(number << 3 | 2) + varint(len(content)) + content
    return varint(number << 3) + varint(int(content))


def event(step: int, time: float, *values: bytes) -> bytes:
    summary = b"".join(part(1, value) for value in values)
    return part(1, time, "<d") + part(2, step) + part(5, summary)


def scalar(tag: str | bytes, value: float) -> bytes:
    return part(1, tag if isinstance(tag, bytes) else tag.encode()) + part(2, value, "<f")


def text(tag: str, content: str) -> bytes:
    return part(1, tag.encode()) + part(8, part(1, 7) + part(8, content.encode()))


def event_file(events: Iterable[bytes], start: float = 1000.0) -> bytes:
    first = part(1, start, "<d") + part(3, b"brain.Event:2")
    return b"".join(tf_record(record) for record in (first, *events))


def cleanrl_events(updates: Iterable[int], start: float = 1000.0, score: float = 10.0, **table: Any) -> bytes:
    """A log of CleanRL for 4 × 16: two episodes per update, then the losses."""
    rows = "\n".join(f"|{name}|{value}|" for name, value in {**TABLE, **table}.items())
    events = [event(0, start, text("hyperparameters/text_summary", f"|param|value|\n|-|-|\n{rows}"))]
    for update in updates:
        for step in (64 * update - 40, 64 * update - 4):
            events.append(event(step, start + update, scalar("charts/episodic_return", score * update + step % 7)))
            events.append(event(step, start + update, scalar("charts/episodic_length", 20)))
        for name in ("value_loss", "policy_loss", "entropy", "approx_kl", "clipfrac", "explained_variance"):
            events.append(event(64 * update, start + update, scalar(f"losses/{name}", 0.5)))
        events.append(event(64 * update, start + update, scalar("charts/SPS", 64)))
    return event_file(events, start)


def write_cleanrl(folder: Path, updates: Iterable[int] = range(1, 6), name: str = "1", **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{name}"
    path.write_bytes(cleanrl_events(updates, **more))
    return path


def wandb_file(records: Iterable[bytes]) -> bytes:
    """LevelDB log framing: records are split into chunks at blocks of 32,768 bytes."""
    result = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
    for record in records:
        left, first = record, True
        while True:
            room = 32768 - len(result) % 32768
            if room < 7:
                result += bytes(room)
                room = 32768
            chunk, left = left[: room - 7], left[room - 7 :]
            kind = (1 if not left else 2) if first else (4 if not left else 3)
            crc = zlib.crc32(bytes([kind]) + chunk)
            result += struct.pack("<IHB", crc, len(chunk), kind) + chunk
            first = False
            if not left:
                break
    return result


def wandb_row(values: Mapping[str, str]) -> bytes:
    items = b"".join(part(1, part(2, name.encode()) + part(16, value.encode())) for name, value in values.items())
    return part(2, items)


def wandb_config(values: Mapping[str, str]) -> bytes:
    items = b"".join(part(1, part(1, name.encode()) + part(16, value.encode())) for name, value in values.items())
    return part(17, part(1, b"id") + part(4, items))
