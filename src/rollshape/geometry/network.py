"""Sizes of the default networks: parameters, and what a sample needs in a forward and backward pass."""

from __future__ import annotations

import math
from typing import NamedTuple

from rollshape.geometry.request import Request

_NATURE_SMALLEST_SIDE = 36  # smaller images have no pixels left after the strides
_IMAGE_AXES = 3


class NetworkSize(NamedTuple):
    """Numbers of parameters, of activations per sample, and of activations in the widest layer."""

    parameters: int
    activations: int
    widest: int


def is_image(request: Request) -> bool:
    """Return whether observations have height, width and channels."""
    return request.obs_shape is not None and len(request.obs_shape) == _IMAGE_AXES


def picture_layers(height: int, width: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    """Return ((channels, kernel, stride) of each convolution, number of features) of the default CNN.

    It is that of Mnih et al. 2015, or a single layer for small grids such as MinAtar's 10 × 10.
    """
    if min(height, width) >= _NATURE_SMALLEST_SIDE:
        return ((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512
    return ((16, 3, 1),), 128


def network_size(request: Request, *heads: int) -> NetworkSize:
    """Return the size of MLPs with these output sizes, side by side; they share an image encoder."""
    obs_shape = request.obs_shape or (1,)
    if is_image(request):
        encoder, features = _encoder_size(obs_shape)
        return NetworkSize(
            encoder.parameters + sum((features + 1) * head for head in heads),
            encoder.activations + sum(heads),
            encoder.widest,
        )
    inputs, parameters = math.prod(obs_shape), 0
    for head in heads:
        width = inputs
        for layer in (*request.hidden_sizes, head):
            parameters += (width + 1) * layer
            width = layer
    hidden = len(heads) * sum(request.hidden_sizes)
    widest = max(sum(heads), len(heads) * max(request.hidden_sizes, default=0))
    return NetworkSize(parameters, hidden + sum(heads), widest)


def _encoder_size(obs_shape: tuple[int, ...]) -> tuple[NetworkSize, int]:
    """Return (size, number of features) of an image encoder; a convolution also stores its input patches."""
    channels = min(obs_shape[0], obs_shape[-1])
    height, width = obs_shape[:2] if channels == obs_shape[-1] else obs_shape[1:]
    layers, features = picture_layers(height, width)
    parameters = activations = widest = 0
    for filters, kernel, stride in layers:
        height, width = ((side - kernel) // stride + 1 for side in (max(height, kernel), max(width, kernel)))
        patches, outputs = height * width * kernel * kernel * channels, height * width * filters
        parameters += (kernel * kernel * channels + 1) * filters
        activations += patches + outputs
        widest = max(widest, patches, outputs)
        channels = filters
    parameters += (height * width * channels + 1) * features
    return NetworkSize(parameters, activations + features, widest), features
