"""Suspected causes of a bad run, each measured on one scale of evidence."""

from rollshape.studies.suspects import batch, policy, scales, window  # noqa: F401 (registers the checks)
from rollshape.studies.suspects.base import CHECKS, Examination, Suspect, UnmeasuredSuspect, evidence, examine

__all__ = ["CHECKS", "Examination", "Suspect", "UnmeasuredSuspect", "evidence", "examine"]
