"""Networks of the caller's: any Equinox module becomes one that the drivers can train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from rollshape.agents.distributions import distribution_for
from rollshape.envs.spaces import Action, Observation
from rollshape.errors import RequestError
from rollshape.formatting import short_repr

NetworkSource = eqx.Module | Callable[[Array, Observation, Action], eqx.Module]
SIGNATURE = (
    "Called with observations [..., *shape], a network returns (outputs for the action distribution "
    "[..., num_outputs], values [...])."
)


class CustomNetwork(eqx.Module):
    """A module with its floating-point arrays as parameters and everything else (functions, flags) as constants."""

    parameters: Any
    constants: Any = eqx.field(static=True)
    shares_layers: ClassVar[bool] = True  # for all we know

    @property
    def module(self) -> Any:
        return eqx.combine(self.parameters, self.constants)

    def __call__(self, observations: Array) -> tuple[Array, Array]:
        outputs, values = self.module(observations)
        return outputs, values

    def value(self, observations: Array) -> Array:
        return self(observations)[1]

    def actor_fn(self) -> Callable[[Array], Array]:
        module = self.module
        return lambda observations: module(observations)[0]


def adapt_network(source: Any, key: Array, observation: Observation, action: Action) -> CustomNetwork:
    """Return the network of a module, or of a function (key, observation, action) → module; check what it returns."""
    if not callable(source):
        raise RequestError("network", f"network is {short_repr(source)}, neither a module nor a function.", SIGNATURE)
    module = source if isinstance(source, eqx.Module) else source(key, observation, action)
    if not isinstance(module, eqx.Module) or not callable(module):
        raise RequestError("network", f"network gives a {type(module).__name__}, not an Equinox module.", SIGNATURE)
    parameters, constants = eqx.partition(module, eqx.is_inexact_array)
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(constants)):
        raise RequestError(
            "network", "The network holds arrays that are not floating-point.", "Make them static fields, or floats."
        )
    network = CustomNetwork(jax.tree.map(jnp.copy, parameters), constants)  # training donates its buffers
    _check_outputs(network, observation, distribution_for(action).num_outputs)
    return network


def _check_outputs(network: CustomNetwork, observation: Observation, num_outputs: int) -> None:
    struct: Any = jax.ShapeDtypeStruct
    batch = struct((3, 2, *observation.shape), observation.dtype)
    expected = ((3, 2, num_outputs), (3, 2))
    try:
        shapes = tuple(part.shape for part in jax.eval_shape(network, batch))
    except Exception as error:  # the caller's code may raise anything
        problem = " ".join(str(error).split())[:300]
        raise RequestError(
            "network", f"The network fails on observations of shape {batch.shape}: {problem}", SIGNATURE
        ) from error
    if shapes != expected:
        raise RequestError(
            "network",
            f"On observations of shape {batch.shape} the network returns shapes {shapes}, expected {expected}.",
            SIGNATURE,
        )
