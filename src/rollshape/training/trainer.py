"""What trained a run: Rollshape, or another library whose run was recorded or imported. Does not import JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rollshape import __version__
from rollshape.typed import check_types

OUR_NAME = "Rollshape"
UNKNOWN_ENV = "unknown environment"  # of a run of another library whose config and log do not name it


@dataclass(frozen=True)
class Trainer:
    """A library by its usual name, its version if that is known, and the dialect of its configs."""

    name: str
    version: str | None
    dialect: str

    @property
    def is_ours(self) -> bool:
        return self.name == OUR_NAME

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Trainer:
        """Read the trainer from run.json; runs of older versions, which do not name one, are ours."""
        values = document.get("trainer")
        if values is None:
            return OURS
        if not isinstance(values, Mapping):
            raise ValueError("trainer is not an object")
        trainer = cls(values["name"], values["version"], values["dialect"])
        check_types(trainer, cls, "trainer")
        return trainer


OURS = Trainer(OUR_NAME, __version__, "rollshape")
