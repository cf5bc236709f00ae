"""One of several processes that train together: `python -m peers.drivers.rank_worker LIBRARY CONFIGS`.

RSL-RL and skrl start NCCL on CUDA devices as soon as WORLD_SIZE is above 1. Here they get gloo on the CPU; everything
after that, from broadcasting the parameters to averaging the gradients, is theirs.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed


class AnyDevice(str):
    """A device name that is equal to every other one: RSL-RL insists on `cuda:RANK`."""

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash("cpu")


def use_gloo() -> None:
    """Replace the backend, and the choice of a CUDA device, before a library asks for them."""
    start = torch.distributed.init_process_group

    def start_once(*_: Any, rank: int, world_size: int, **__: Any) -> None:
        if not torch.distributed.is_initialized():
            start("gloo", rank=rank, world_size=world_size)

    torch.distributed.init_process_group = start_once
    torch.cuda.set_device = lambda _: None


def train(library: str, config: dict[str, Any]) -> tuple[Any, list[torch.nn.Module]]:
    """Return what this process counted, and the trained modules."""
    if library == "rsl_rl":
        from peers.drivers.rsl_rl_driver import train_runner

        counted, runner = train_runner(config, device=AnyDevice("cpu"))
        return counted, [runner.alg.actor, runner.alg.critic]
    from peers.drivers.skrl_driver import train_runner as train_skrl

    counted, runner = train_skrl(config)
    return counted, [runner.agent.policy, runner.agent.value]


def main() -> None:
    use_gloo()
    results = []
    for config in json.loads(sys.argv[2]):
        counted, modules = train(sys.argv[1], config)
        parameters = [value.double().sum().item() for module in modules for value in module.parameters()]
        results.append({"minibatches": counted.minibatches, "steps": counted.steps, "parameters": parameters})
    print(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
