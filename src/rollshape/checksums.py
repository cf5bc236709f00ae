"""Checksums: a document or a file that changed after it was written is refused, never read as if it were intact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

CHUNK = 1 << 20  # bytes that are hashed at a time


class Extent(NamedTuple):
    """The first `size` bytes of a file and their SHA-256."""

    size: int
    sha256: str

    def covers(self, content: bytes) -> bool:
        """Return whether the content begins with these bytes."""
        return len(content) >= self.size and hashlib.sha256(content[: self.size]).hexdigest() == self.sha256


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document with the checksum of its values."""
    bare = {name: value for name, value in document.items() if name != "checksum"}
    return {**bare, "checksum": _checksum(bare)}


def is_intact(document: Mapping[str, Any]) -> bool:
    """Return whether a sealed document still has the values it was sealed with."""
    bare = {name: value for name, value in document.items() if name != "checksum"}
    return document.get("checksum") == _checksum(bare)


def _checksum(document: Mapping[str, Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def digest_file(file: IO[bytes], size: int) -> bytes:
    """Return the SHA-256 of the next `size` bytes of a file."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()
