"""Points of a study from a recipe: what `rollshape rescale` makes of it for other numbers of environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rollshape.errors import RequestError
from rollshape.geometry.dialects.policies import ENVS_ONLY, POLICIES, PolicyName
from rollshape.geometry.dialects.rescale import rescale

# In Rollshape, changing num_envs only is keep-minibatch or keep-num-minibatches, whichever of the keys is given.
MEASURED: tuple[PolicyName, ...] = tuple(policy.name for policy in POLICIES.values() if policy.name != ENVS_ONLY)


def rescaled_points(
    fixed: Mapping[str, Any], point: Mapping[str, Any], counts: Sequence[Any], policies: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    """Yield the point, then one for every number of environments and policy; each run is yielded once."""
    config, yielded = {**fixed, **point}, [dict(point)]
    yield dict(point)
    for count in counts:
        for policy in policies:
            result = rescale(config, "rollshape", count, policy=policy)
            for change in result.changes:
                if change.key in fixed:
                    raise RequestError(
                        "study", f"{policy} changes {change.key}, which is fixed.", f"Move {change.key} to the points."
                    )
            new = {**point, **{change.key: change.after for change in result.changes}}
            if new not in yielded:
                yielded.append(new)
                yield new
