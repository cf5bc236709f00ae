"""`rollshape.train`: the training of `training.run`, whose result a notebook can show."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from rollshape.api.runs import Run, run_of_training
from rollshape.training.run import TrainedRun
from rollshape.training.run import train as train_run

Arguments = ParamSpec("Arguments")


def _returning_run(function: Callable[Arguments, TrainedRun]) -> Callable[Arguments, Run]:
    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Run:
        return run_of_training(function(*args, **kwargs))

    call.__signature__ = signature(function).replace(return_annotation=Run)  # type: ignore[attr-defined]
    return call


train = _returning_run(train_run)
