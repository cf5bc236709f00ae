import os
from dataclasses import dataclass, field

import torch


@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)
    """the name of this experiment"""
    total_timesteps: int = 10_000_000
    num_envs: int = 8
    num_steps: int = 128
    anneal_lr: bool = True
    num_minibatches: int = 4
    update_epochs: int = field(default=4)
    learning_rate: float = 2.5e-4

    # filled in at runtime
    batch_size: int = 0
    minibatch_size: int = 0


class Agent(torch.nn.Module):
    scale = 2.0


if __name__ == "__main__":
    args = parse(Args)
    for _ in range(3):
        print(args)
