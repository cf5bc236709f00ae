"""Pages of the rules that are enforced: breaking one ends in an error, before anything starts."""

from __future__ import annotations

from rollshape.geometry.rules.base import page

_ARITHMETIC = "arithmetic"

page(
    "contradiction",
    _ARITHMETIC,
    """Two things that you said cannot both be true.

    rollout_size = num_envs × num_steps = minibatch_size × num_minibatches. Any of them may be left out; what
    is given more than once must agree.
    """,
)
page(
    "divisibility",
    "rl_games, Baselines, Dopamine and PureJaxRL refuse it; Isaac Lab issues 1254 and 1450",
    """The rollout must be a multiple of the minibatch.

    Otherwise some samples fill no minibatch. Libraries then crash (rl_games), train a tiny last minibatch
    (SB3, CleanRL), drop the tail (RSL-RL, skrl) or merge it (Tianshou). Rollshape refuses by default and
    names the nearest legal values; `--on-remainder fix` takes the nearest (the minibatch gives way, or the
    shape where that would change the minibatch more than twofold), `--on-remainder warn` leaves samples out
    and says which.
    """,
)
page(
    "rollout-split",
    _ARITHMETIC,
    """rollout_size must be a multiple of the num_envs or num_steps that you gave with it.

    Every environment contributes the same number of steps. `--on-remainder fix` takes the nearest multiple.
    """,
)
page(
    "zero-updates",
    "Stable-Baselines3 issue 1846",
    """The budget must pay for at least one rollout.

    num_updates = floor(total_timesteps / rollout_size). With zero updates nothing is trained.
    """,
)
page(
    "full-batch",
    "Mnih et al. 2016 (A2C); Williams 1992 (REINFORCE)",
    """A2C and REINFORCE take one gradient step on the whole rollout.

    Their gradient is that of the policy which collected the data. After one step the policy is another one;
    using the data again needs PPO's clipped ratio.
    """,
)
page(
    "memory",
    _ARITHMETIC,
    """A plan must fit into the machine's memory.

    The peak holds the rollout (or the replay), one minibatch with its activations, the networks, Adam's
    moments, and the environments themselves (`--env-bytes`, measured with `--env` where it is at hand). What
    only passes by, such as RRD's batches of an iteration, is traffic and is not counted.
    """,
)
page("whole-number", _ARITHMETIC, "Sizes are whole numbers: at least 1, and below what any machine holds.")
page("number-range", _ARITHMETIC, "γ and λ lie in [0, 1]; a learning rate is positive and finite.")
page("choice", "the command's own help", "A name that is not on the list; the message shows the list.")
page(
    "subsequences",
    "Ren et al. 2022; its reference code floors silently",
    """rrd_batch_size counts timesteps and must be a multiple of rrd_sample_size.

    num_subsequences = rrd_batch_size / rrd_sample_size. The reference code floors: a remainder is dropped
    silently, and a batch smaller than one sample gives zero subsequences, a reward network that never trains.
    """,
)
