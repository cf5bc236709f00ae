"""What shape: integers only, imported in milliseconds, never JAX."""

from rollshape.geometry.plan import Plan, plan
from rollshape.geometry.request import Request
from rollshape.geometry.rules import Finding, explain

__all__ = ["Finding", "Plan", "Request", "explain", "plan"]
