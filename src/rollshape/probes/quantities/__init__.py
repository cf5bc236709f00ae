"""The quantities of probes, one module each.

`QUANTITIES` is the order in which they are presented. They are measured in the same order, except that MEASURED_FIRST
come first: all draw from one random generator, so the numbers of a probe depend on the order of its measurements.
"""

from __future__ import annotations

from rollshape.probes.quantities.bias import BIAS
from rollshape.probes.quantities.cosine_maps import COSINE_MAPS
from rollshape.probes.quantities.cosines import COSINES
from rollshape.probes.quantities.critic import CRITIC
from rollshape.probes.quantities.horizon import HORIZON
from rollshape.probes.quantities.minibatch import MINIBATCH
from rollshape.probes.quantities.noise_scale import NOISE_SCALE
from rollshape.probes.quantities.redistribution import REDISTRIBUTION
from rollshape.probes.quantities.reset_phase import RESET_PHASE
from rollshape.probes.quantities.reward_gradient import REWARD_GRADIENT
from rollshape.probes.quantities.step_noises import STEP_NOISES
from rollshape.probes.quantities.surface import SIZES, SURFACE
from rollshape.probes.quantities.variance import COLLECTED, VARIANCE

QUANTITIES = (
    VARIANCE, COLLECTED, SURFACE, SIZES, HORIZON, NOISE_SCALE, BIAS, MINIBATCH, COSINES, CRITIC, STEP_NOISES,
    RESET_PHASE, COSINE_MAPS,
)  # fmt: skip
MEASURED_FIRST = (VARIANCE, CRITIC, MINIBATCH)
REWARD_QUANTITIES = (REWARD_GRADIENT, REDISTRIBUTION)  # of a run of RRD
