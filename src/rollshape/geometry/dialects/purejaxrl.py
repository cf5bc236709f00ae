"""PureJaxRL."""

from __future__ import annotations

from rollshape.geometry.dialects.base import Dialect
from rollshape.geometry.dialects.behaviors import CONSTANT_RATE, LINEAR_RATE, Switch, TimeLimit
from rollshape.geometry.dialects.keys import Key
from rollshape.geometry.dialects.sharing import Recurrence
from rollshape.geometry.minibatch import Remainder


class PureJaxRL(Dialect):
    """A dict with upper-case keys; the number of minibatches must divide the rollout size.

    ppo_rnn.py (`--recurrent`) trains on whole environments.
    """

    name = "purejaxrl"
    library = "PureJaxRL ppo.py"
    version = "2024-09"
    keys = (
        Key("NUM_ENVS", "num_envs", 4),
        Key("NUM_STEPS", "num_steps", 128),
        Key("NUM_MINIBATCHES", "num_minibatches", 4),
        Key("UPDATE_EPOCHS", "num_epochs", 4),
        Key("TOTAL_TIMESTEPS", "total_timesteps", 500_000),
        Key("LR", "learning_rate", 2.5e-4),
        Key("GAMMA", "gamma", 0.99),
        Key("GAE_LAMBDA", "gae_lambda", 0.95),
        Key("CLIP_EPS", "clip_range", 0.2),
        Key("ENT_COEF", "entropy_coef", 0.01),
        Key("VF_COEF", "value_coef", 0.5, scale=0.5),
        Key("MAX_GRAD_NORM", "max_grad_norm", 0.5),
    )
    remainder = Remainder.REFUSE
    remainder_detail = "AssertionError: batch size must be equal to number of steps * number of envs"
    time_limit = TimeLimit.TERMINAL
    schedule = "linear to zero (ANNEAL_LR)"
    value_clip = "always clipped"
    recurrence = Recurrence.ENVIRONMENTS
    switches = (Switch("ANNEAL_LR", "learning-rate schedule", {True: LINEAR_RATE, False: CONSTANT_RATE}),)
    other_keys = frozenset({"NUM_UPDATES", "MINIBATCH_SIZE"})
