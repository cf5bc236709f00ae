"""Models of Stable-Baselines3: the sizes in the JSON member `data`; pickled parts are never loaded."""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.sources.source import NOT_CONSTANT, ConfigSource

LARGEST_DATA = 20_000_000  # bytes of `data` after decompression
_CONSTANT = re.compile(r"(?:ConstantSchedule\(val=|constant_fn\()\s*([0-9.eE+-]+)\s*\)")


def parse(path: str) -> ConfigSource:
    """Read the hyperparameters of a saved model."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("data") as member:
            raw = member.read(LARGEST_DATA + 1)
        if len(raw) > LARGEST_DATA:
            raise RequestError("file", f"{path}: `data` is larger than {LARGEST_DATA:,} bytes.", "Give an SB3 model.")
        data = json.loads(raw)
    except (
        OSError,
        KeyError,
        ValueError,
        RecursionError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
    ) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            "file", f"{path} is not a model of Stable-Baselines3 (a zip file with the JSON member `data`).",
            "Give a model.zip, or the config.",
        ) from None  # fmt: skip
    if not isinstance(data, dict):
        raise RequestError("file", f"{path}: `data` is not a JSON object.", "Give a model of Stable-Baselines3.")
    values = {name: _inert(value) for name, value in data.items()}
    if isinstance(values.get("_total_timesteps"), int) and values["_total_timesteps"] > 0:
        values["n_timesteps"] = values["_total_timesteps"]
    if "n_steps" in values and "clip_range" not in values:
        values["algo"] = "a2c" if "batch_size" not in values else "an algorithm without clip_range"
    return ConfigSource("a model of Stable-Baselines3", path, "", values)


def _inert(value: Any) -> Any:
    """Return a value; of a pickled object only its description, or the number of a constant schedule."""
    if not isinstance(value, dict) or ":serialized:" not in value:
        return value
    described = " ".join(str(item) for name, item in value.items() if name != ":serialized:")
    constant = _CONSTANT.search(described)
    if constant:
        with contextlib.suppress(ValueError):
            return float(constant[1])
    return f"{NOT_CONSTANT}{value.get(':type:', 'an object')}"
