"""Reading configs: one function for YAML, JSON, TOML, INI, Python, command lines, Hydra, run folders and SB3 models."""

from rollshape.geometry.dialects.sources.load import load
from rollshape.geometry.dialects.sources.source import ConfigSection, ConfigSource, Edit, apply_edits

__all__ = ["ConfigSection", "ConfigSource", "Edit", "apply_edits", "load"]
