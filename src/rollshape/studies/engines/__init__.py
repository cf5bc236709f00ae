"""Engines run the trials of a study: worker processes on this machine, or a Ray cluster."""

from typing import Literal

EngineName = Literal["local", "ray"]
