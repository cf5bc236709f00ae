"""One module per kind of fault; importing this package registers all of them."""

from chaos.kinds import (  # noqa: F401
    configs,
    damage,
    disk,
    environments,
    kills,
    links,
    owners,
    power,
    rows,
    studies,
    values,
)
