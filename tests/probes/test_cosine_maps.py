"""Cosine maps survive their encoding, and their means are those of the pairs they name."""

import json

import numpy as np
from tests.reports.runs import cosine_map

from rollshape.probes.quantities.cosine_maps import CosineMap


def test_a_map_is_read_back_to_within_1_127th() -> None:
    expected = cosine_map(2, 4)
    document = json.loads(json.dumps(expected.to_dict()))
    found = CosineMap.from_dict(document)
    assert found.to_dict() == document
    assert (found.num_envs, found.num_steps) == (2, 4)
    np.testing.assert_allclose(found.cosine, expected.cosine, atol=0.5 / 127)


def test_means_are_those_of_the_pairs() -> None:
    expected = cosine_map(2, 4)
    pairs = [expected.cosine[0][4 * e + i, 4 * e + j] for e in range(2) for i in range(4) for j in range(4) if i != j]
    np.testing.assert_allclose(expected.within_env, np.mean(pairs))
    np.testing.assert_allclose(expected.across_batches, expected.cosine[1:].mean())
