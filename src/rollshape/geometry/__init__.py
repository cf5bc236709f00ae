"""Planning batch sizes. Pure integer arithmetic: imports in milliseconds, without JAX or NumPy."""

from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import Finding, explain

__all__ = ["Finding", "Plan", "Request", "explain", "plan"]
