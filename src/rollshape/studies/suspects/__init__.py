"""Suspected causes of a bad run, each measured on one scale of evidence."""

from rollshape.studies.suspects import batch, policy, window  # noqa: F401 (registers the checks)
from rollshape.studies.suspects.base import CHECKS, Suspect, evidence, rank_suspects

__all__ = ["CHECKS", "Suspect", "evidence", "rank_suspects"]
