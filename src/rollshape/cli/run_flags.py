"""Flags of commands that read a config: what a run has and its config need not contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from rollshape.cli.flags import CommonArgs
from rollshape.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class RunArgs(CommonArgs):
    """Environments, agents, processes and recurrence."""

    num_envs: Annotated[int | None, "number of environments of all processes, if it is not in the config"] = None
    num_envs_per_rank: Annotated[int | None, "number of environments of each process (alternative)"] = None
    num_agents: Annotated[int | None, "agents per environment that share the policy"] = None
    world_size: Annotated[int | None, "number of data-parallel processes (GPUs)"] = None
    recurrent: Annotated[bool, "the policy is recurrent (known from the config in most libraries)"] = False
    seq_length: Annotated[int | None, "steps per sequence of a recurrent policy"] = None

    def facts(self) -> dict[str, Any]:
        """Return the arguments of `translate` and `fit`."""
        num_envs = self.num_envs
        if self.num_envs_per_rank is not None:
            if num_envs is not None:
                raise RequestError(
                    "contradiction",
                    "num_envs and num_envs_per_rank cannot both be given.",
                    "Leave one of them out.",
                )
            num_envs = self.num_envs_per_rank * (self.world_size or 1)
        return {
            "num_envs": num_envs,
            "num_agents": self.num_agents,
            "world_size": self.world_size,
            "recurrent": self.recurrent or None,
            "seq_length": self.seq_length,
        }
