"""skrl's PPO_RNN with a GRU: its Runner cannot build recurrent models, so they are written as in skrl's examples."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO_RNN
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer

from peers.drivers import CARTPOLE, Counted, Tally, before, seed_everything

HIDDEN = 8


class Recurrent(Model):
    """A GRU over sequences; while acting, over single steps."""

    def build(self, num_envs: int, length: int, num_outputs: int) -> None:
        self.length, self.count = length, num_envs
        self.gru = torch.nn.GRU(4, HIDDEN, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, num_outputs)

    def get_specification(self) -> Mapping[str, Any]:
        return {"rnn": {"sequence_length": self.length, "sizes": [(1, self.count, HIDDEN)]}}

    def compute(self, inputs: Mapping[str, Any], _: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        observations, hidden = inputs["observations"], inputs["rnn"][0]
        length = self.length if self.training else 1
        sequences = observations.view(-1, length, observations.shape[-1])
        if self.training:
            hidden = hidden.view(1, -1, length, HIDDEN)[:, :, 0, :].contiguous()
        outputs, hidden = self.gru(sequences, hidden)
        return self.head(outputs.flatten(0, 1)), {"rnn": [hidden]}


class RecurrentPolicy(CategoricalMixin, Recurrent):
    def __init__(self, num_envs: int, length: int, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.build(num_envs, length, 2)


class RecurrentValue(DeterministicMixin, Recurrent):
    def __init__(self, num_envs: int, length: int, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.build(num_envs, length, 1)


def train(config: Mapping[str, Any], length: int) -> Counted:
    seed_everything()
    agent = dict(config)
    num_envs, timesteps = agent.pop("num_envs"), agent.pop("timesteps")
    env = wrap_env(gym.make_vec(CARTPOLE, num_envs=num_envs, vectorization_mode="sync"), "gymnasium", verbose=False)
    spaces = {
        "observation_space": env.observation_space,
        "state_space": env.state_space,
        "action_space": env.action_space,
        "device": "cpu",
    }
    tally = Tally()
    with tempfile.TemporaryDirectory() as scratch:
        quiet = {"directory": scratch, "write_interval": 0, "checkpoint_interval": 0}
        ppo = PPO_RNN(
            models={
                "policy": RecurrentPolicy(num_envs, length, **spaces),
                "value": RecurrentValue(num_envs, length, **spaces),
            },
            memory=RandomMemory(memory_size=config["rollouts"], num_envs=num_envs, device="cpu"),
            cfg={"experiment": quiet, **agent},
            **spaces,
        )
        before(ppo, "update", tally.new_update)
        before(ppo.policy, "act", lambda inputs, **_: _minibatch(tally, inputs))
        options = {"timesteps": timesteps, "headless": True, "disable_progressbar": True}
        trainer = SequentialTrainer(cfg=options | {"close_environment_at_exit": False}, env=env, agents=ppo)
        with tally.watching():
            trainer.train()
    return Counted(tally.minibatches, tally.steps, {})


def _minibatch(tally: Tally, inputs: Mapping[str, Any]) -> None:
    if "taken_actions" in inputs:
        tally.minibatch(len(inputs["taken_actions"]))
