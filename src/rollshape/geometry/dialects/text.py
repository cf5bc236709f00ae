"""Configs as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def as_yaml(config: Mapping[str, Any], indent: str = "") -> str:
    """Return the config as YAML that all loaders read alike (PyYAML reads `3e-05` as text, so write `3.0e-05`)."""
    lines = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{as_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(value)
