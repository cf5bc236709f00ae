"""Methods of other libraries' objects, replaced for a while by ones that also report their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def watched_method(owner: Any, name: str, watch: Callable[..., Any]) -> Iterator[None]:
    """Replace a method until the block ends: `watch` takes the original and its arguments, and returns its result."""
    original, before = getattr(owner, name), owner.__dict__.get(name)
    owner.__dict__[name] = lambda *args, **options: watch(original, *args, **options)
    try:
        yield
    finally:
        if before is None:
            owner.__dict__.pop(name, None)
        else:
            owner.__dict__[name] = before
