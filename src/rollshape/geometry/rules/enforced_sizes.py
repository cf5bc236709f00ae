"""Pages of the enforced rules on sizes and settings: violating one is an error before anything starts."""

from __future__ import annotations

from rollshape.geometry.rules.base import page

_ARITHMETIC = "arithmetic"

page(
    "contradiction",
    _ARITHMETIC,
    """Two of the requested values contradict each other.

    rollout_size = num_envs × num_steps = minibatch_size × num_minibatches. Any of these may be left out; redundant
    values must agree.
    """,
)
page(
    "divisibility",
    "rl_games, Baselines, Dopamine and PureJaxRL raise an error; Isaac Lab issues 1254 and 1450",
    """The rollout size must be a multiple of the minibatch size.

    Otherwise some samples fill no minibatch. Libraries then crash (rl_games), train on a small last minibatch (SB3,
    CleanRL), drop the samples (RSL-RL), distribute them (skrl) or add them to the last minibatch (Tianshou). By
    default Rollshape raises an error with the nearest valid values. `--on-remainder fix` uses the nearest ones: it
    changes the minibatch size, or the shape if the minibatch would change by more than a factor of two.
    `--on-remainder warn` omits the remaining samples and reports how many.
    """,
)
page(
    "rollout-split",
    _ARITHMETIC,
    """rollout_size must be a multiple of the requested num_envs or num_steps.

    Every environment contributes the same number of steps. `--on-remainder fix` uses the nearest multiple.
    """,
)
page(
    "zero-updates",
    "Stable-Baselines3 issue 1846",
    """The budget must allow at least one update.

    num_updates = floor(total_timesteps / rollout_size). With zero updates nothing is trained.
    """,
)
page(
    "run-length",
    _ARITHMETIC,
    """A run has at most 2³¹ − 1 updates, and 10,000,000 gradient steps per update.

    Updates are counted in 32 bits. The metrics of one logging interval (one row per update and epoch) are kept in
    memory until they are written: at most 1,000,000 of them.
    """,
)
page(
    "full-batch",
    "Mnih et al. 2016 (A2C); Williams 1992 (REINFORCE)",
    """A2C and REINFORCE take one gradient step on the whole rollout.

    Their gradient is only valid for the policy that collected the data. After one step the policy has changed, and
    reusing the data needs PPO's clipped ratio.
    """,
)
page(
    "memory",
    _ARITHMETIC,
    """A run must fit into the machine's memory.

    The peak contains the rollout (or the replay buffer), one minibatch with its activations, the networks with their
    gradient and Adam's moments in every shard, the environments (`--env-bytes`; `--env` measures it if the environment
    is installed), Python, JAX and its compiler. Data that is only transferred, such as the batches of an RRD iteration,
    is not part of the peak. The constants were measured with JAX on a CPU; networks of the caller's are not counted.
    """,
)
page("whole-number", _ARITHMETIC, "Sizes are whole numbers of at least 1, and below a fixed maximum.")
page("number-range", _ARITHMETIC, "Every number has a range, which the message shows; NaN and infinity are in none.")
page(
    "choice",
    "the help of the command",
    "The value must be one of a fixed list, or of another type; the message shows what the field takes.",
)
page(
    "argument",
    "signatures of the Python functions",
    """A Python function was called with an unknown argument, or with one of the wrong type.

    NumPy and JAX scalars are accepted as numbers, arrays are not. Options of an environment are stored with the run, so
    they are plain values: numbers, text, true, false, and lists or mappings of these.
    """,
)
page(
    "subsequences",
    "Ren et al. 2022; its reference code rounds down silently",
    """rrd_batch_size is a number of timesteps and must be a multiple of rrd_sample_size.

    num_subsequences = rrd_batch_size / rrd_sample_size. The reference code rounds down: it silently drops a remainder,
    and a batch smaller than one sample gives zero subsequences, so that the reward network is never trained.
    """,
)
page(
    "layout",
    _ARITHMETIC,
    """Shards and microbatches must divide the sizes that they split.

    num_shards splits the environments and every minibatch into equal parts, one per JAX device; microbatch_size splits
    such a part again, so that its activations fit into the cache. Neither changes which samples are used, but both
    determine the order of summation, so they belong to the spec and not to the machine. On a CPU a device is only a
    thread: two shards give bitwise identical results on one core and on eight.
    """,
)
page(
    "independent-environments",
    "the coverage of the intervals, measured in tests/gradients",
    """Gradient statistics need at least 32 independent environments.

    Steps of one environment are correlated, so intervals are bootstrapped over environments; with fewer environments
    they would be too narrow.
    """,
)
page(
    "replay-length",
    "Ren et al. 2022: only finished episodes enter the reward batch",
    """The replay buffer must hold whole episodes.

    RRD learns from the return of an episode, so all timesteps must still be in the buffer when the episode ends. Each
    environment has buffer_size / num_envs slots, and an episode of T steps needs T + 1 of them: every observation is
    stored once, including the final one. An iteration must fit as well.
    """,
)
page(
    "network",
    "Rollshape",
    """A custom network must be an Equinox module with the documented signature.

    `rollshape.train(..., network=...)` takes a module, or a function (key, observation, action) → module. Called with
    observations [..., *shape] it returns (outputs for the action distribution [..., num_outputs], values [...]). Its
    floating-point arrays are trained. A run with a custom network can only be opened from Python, with the same
    `network`.
    """,
)
