"""Suspected causes of a bad run, each measured on one scale of evidence."""

from rollshape.studies.suspects import (  # noqa: F401 (registers the checks)
    batch,
    exploration,
    policy,
    scales,
    window,
)
from rollshape.studies.suspects.base import CHECKS, Examination, Suspect, UnmeasuredSuspect, evidence, examine

__all__ = ["CHECKS", "Examination", "Suspect", "UnmeasuredSuspect", "evidence", "examine"]
