"""Reading, writing and locking files: a written file is complete or absent, and a disk error is one clear message."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rollshape.errors import RequestError, RunError
from rollshape.formatting import format_bytes

LARGEST_FILE = 500_000  # bytes of a config that is read
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the quota, the limit on a file's size
RESUME = "run the same command with --resume"


@contextmanager
def disk_errors(path: Path, then: str = RESUME) -> Iterator[None]:
    """Turn an OSError while `path` is written into a RunError: what, where, how much is free, what to do."""
    try:
        yield
    except FileNotFoundError:
        raise RunError(
            "disk",
            f"{path} cannot be written: {path.parent} was removed or moved while the command was running.",
            "Restore the folder, or run the command again with another one.",
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "Free some space" if error.errno in DISK_FULL else "Make it writable"
        raise RunError(
            "disk",
            f"{path} cannot be written: {reason} ({_free_bytes(path)} free there). Files written before are intact.",
            f"{remedy}, then {then}.",
        ) from None


def _free_bytes(path: Path) -> str:
    """Free space of the disk that holds the path, or will hold it."""
    return format_bytes(shutil.disk_usage(next(parent for parent in path.absolute().parents if parent.exists())).free)


class WriteOnlyFile:
    """A file that can only be written to. NumPy writes into a real file past Python and ignores a full disk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None  # the first one: a library may raise an exception of its own instead

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise


@contextmanager
def atomic_write(target: Path, then: str = RESUME) -> Iterator[WriteOnlyFile]:
    """Open a new file that replaces `target` when the block ends; after an error `target` is as it was.

    The temporary file has a random name and is created exclusively, so it never follows a link somebody planted.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.writing")
    with disk_errors(target, then):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        file = os.fdopen(handle, "wb")
        writer = WriteOnlyFile(file)
        try:
            with file:
                yield writer
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
            _sync_folder(target.parent)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if writer.error is not None and not isinstance(error, OSError):
                raise writer.error from None
            raise


def _sync_folder(folder: Path) -> None:
    """Write a folder's entries through to the disk, so that a rename survives a power failure."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(target: Path, content: bytes, then: str = RESUME) -> None:
    """Replace a file's content in one step."""
    with atomic_write(target, then) as file:
        file.write(content)


def rewrite_text(path: Path, text: str) -> None:
    """Replace the content of a user's existing file in one step; its mode and links to it stay."""
    target = path.resolve()
    mode = target.stat().st_mode
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise RequestError("file", f"{path} is read-only.", "Make it writable, or use --dry-run to see the change.")
    write_bytes(target, text.encode(), then="run the command again")
    target.chmod(stat.S_IMODE(mode))


def append(target: Path, content: bytes) -> None:
    """Append to a file, all or nothing: after a disk error the file is cut back to its old size."""
    with disk_errors(target), target.open("ab", buffering=0) as file:
        size, left = file.tell(), memoryview(content)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(size)
            raise


class FileLock:
    """An exclusive lock on a file, held until it is released or its process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)  # closing alone is not enough if a forked child has the handle too
        os.close(self._handle)


def lock_file(path: Path, then: str = RESUME) -> FileLock | None:
    """Create a file, lock it and write this process's pid and host to it; None while another process holds the lock.

    Every process that locks the file must use this function: `describe_lock_owner` then names the holder.
    """
    with disk_errors(path, then):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
        except BaseException as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise
    return FileLock(handle)


def describe_lock_owner(path: Path) -> str:
    """Return `process 4711 on host`, from a lock file that another process holds."""
    try:
        pid, host = path.read_text().split()
    except (OSError, ValueError):  # it has the lock, but has not written its name yet
        return "another process"
    return f"process {pid} on {host}"


def output_directory(path: str | Path) -> Path:
    """Return the path of a directory that a command writes to; no path and the root directory are never meant."""
    text = os.fspath(path)
    if not text or "\0" in text or os.path.realpath(text) == os.path.abspath(os.sep):
        raise RequestError("file", f"{text!r} cannot be the directory of a result.", "Give a directory of its own.")
    return Path(text)


def read_text(source: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    try:
        if source == "-" and sys.stdin is None:
            raise RequestError("file", "There is no standard input.", "Give a file.")
        raw = sys.stdin.buffer.read(LARGEST_FILE + 1) if source == "-" else _read_bytes(Path(source))
    except OSError as error:
        raise RequestError("file", f"Cannot read {source}: {error.strerror}.", "Check the path.") from None
    if len(raw) > LARGEST_FILE:
        raise RequestError("file", f"{source} is larger than {LARGEST_FILE:,} bytes.", "Give the config file itself.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("file", f"{source} is not UTF-8 text.", "Give a YAML or JSON file.") from None


def _read_bytes(path: Path) -> bytes:
    if "\0" in str(path) or not stat.S_ISREG(path.stat().st_mode):
        raise RequestError("file", f"{path} is not a regular file.", "Give a YAML or JSON file, or - for stdin.")
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)
