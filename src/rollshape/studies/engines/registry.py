"""The engines by name. An engine is a module-level object with two functions, `check` and `run`."""

from __future__ import annotations

from rollshape.studies.engines import EngineName, local, ray
from rollshape.studies.engines.pool import Engine

ENGINES: dict[EngineName, Engine] = {"local": local.ENGINE, "ray": ray.ENGINE}
