"""`rollshape.check_env`: the check of `envs.check`, after which the same program can train."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from rollshape.algorithms.parallel import reserve_devices
from rollshape.envs.check import EnvReport
from rollshape.envs.check import check_env as check_environment

Arguments = ParamSpec("Arguments")
NUM_DEVICES = 2  # that training uses by default; JAX creates its devices with the first computation


def _reserving_devices(function: Callable[Arguments, EnvReport]) -> Callable[Arguments, EnvReport]:
    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> EnvReport:
        reserve_devices(NUM_DEVICES)
        return function(*args, **kwargs)

    return call


check_env = _reserving_devices(check_environment)
