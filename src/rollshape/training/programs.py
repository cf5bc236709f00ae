"""Compiled programs that a process keeps, to train further seeds of a shape without compiling again.

A program takes about 30 MB, and JAX keeps another 10 to 30 MB of what it has traced and compiled for a shape: without a
limit, a process that trains many shapes grows by as much with each of them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax

from rollshape.training.trim import trim_memory

MOST_PROGRAMS = 4  # that a process has compiled before it releases all of them

Program = TypeVar("Program")

_programs: dict[Hashable, Any] = {}
_small_programs: dict[Hashable, Any] = {}  # which take 1 MB or less, and are released with the others


def find_or_compile(key: Hashable | None, compile_program: Callable[[], Program]) -> Program:
    """Return the program with this key, compiled if this process does not have it; without a key it is not reused."""
    if key is not None and key in _programs:
        known: Program = _programs[key]
        return known
    make_room()
    program = compile_program()
    trim_memory()
    if key is None:
        _programs[object()] = None  # what JAX keeps of it counts
    else:
        _programs[key] = program
    return program


def find_or_compile_small(key: Hashable | None, compile_program: Callable[[], Program]) -> Program:
    """Return a program that is not counted and can be compiled while another thread compiles."""
    program: Program | None = None if key is None else _small_programs.get(key)
    if program is None:
        program = compile_program()
        if key is not None:
            _small_programs[key] = program
    return program


def make_room() -> None:
    """Release all programs if there are as many as a process may keep."""
    if len(_programs) >= MOST_PROGRAMS:
        release_programs()


def release_programs() -> None:
    """Release all programs that no driver uses, including everything that JAX has traced and compiled.

    Functions of the caller's compile again when they are called next; on disk all programs stay in the cache.
    """
    clear_caches: Any = jax.clear_caches
    _programs.clear()
    _small_programs.clear()
    clear_caches()
    gc.collect()
    trim_memory()
