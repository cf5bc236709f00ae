"""How each library configures a rollout shape: one file per library, for reading and writing."""

from rollshape.geometry.dialects.fit import Fit, fit, fit_config
from rollshape.geometry.dialects.registry import DIALECTS, NAMES, resolve
from rollshape.geometry.dialects.rescale import Rescaled, rescale
from rollshape.geometry.dialects.translate import Translation, translate

__all__ = [
    "DIALECTS",
    "NAMES",
    "Fit",
    "Rescaled",
    "Translation",
    "fit",
    "fit_config",
    "rescale",
    "resolve",
    "translate",
]
