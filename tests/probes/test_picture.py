"""Cosines survive their packing, and their means are those of the pairs that they name."""

import json

import numpy as np
from tests.reports.runs import picture

from rollshape.probes.picture import unpacked


def test_a_packed_picture_is_the_same_to_a_127th() -> None:
    made = picture(2, 4)
    found = unpacked(json.loads(json.dumps(made.packed())))
    assert (found.num_envs, found.num_steps) == (2, 4)
    np.testing.assert_allclose(found.cosine, made.cosine, atol=0.5 / 127)


def test_means_are_those_of_the_pairs() -> None:
    made = picture(2, 4)
    pairs = [made.cosine[0][4 * e + i, 4 * e + j] for e in range(2) for i in range(4) for j in range(4) if i != j]
    np.testing.assert_allclose(made.mean_within(), np.mean(pairs))
    np.testing.assert_allclose(made.mean_across(), made.cosine[1:].mean())
