"""What a quantity of a probe consists of: measurement, JSON, sentences, tables and figures, all in one module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rollshape.probes.text import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Context = TypeVar("Context")
ProbeType = TypeVar("ProbeType")


@dataclass(frozen=True, kw_only=True)
class Quantity(Generic[Context, ProbeType]):
    """A quantity that a probe measures and presents.

    To add one, write a module that ends with a Quantity, list it in `quantities/__init__.py`, and add the field of its
    result to the probe's class.
    """

    name: str  # field of the probe that holds the result
    measure: Callable[[Context], Any]
    to_dict: Callable[[ProbeType], dict[str, Any]]  # entries of the JSON document
    from_dict: Callable[[Mapping[str, Any]], Any]  # the result, from the whole document
    part: str | None = None  # of --parts; without it the quantity is always measured. None stands for "not measured".
    sentences: Callable[[ProbeType], list[str]] = lambda _: []
    tables: Callable[[ProbeType], list[TextTable]] = lambda _: []
    figures: Callable[[ProbeType], dict[str, Figure]] = lambda _: {}  # by file name, without suffix
