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
    (SB3, CleanRL), drop the tail (RSL-RL), spread it (skrl) or merge it (Tianshou). Rollshape refuses by default and
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
page(
    "flags",
    "the command's own help",
    """A flag or command that does not exist, or a value of the wrong kind.

    Flags are kebab-case; underscores are accepted. Whole numbers may be written 500_000 or 1e6.
    """,
)
page(
    "file",
    _ARITHMETIC,
    """A file that cannot be read or written, or that is not plain YAML or JSON.

    Nothing in a file is executed: tags other than YAML's own are refused. A file is replaced in one step or not at
    all, and an edit that would change more than the values it is meant to change is not made.
    """,
)
page(
    "level",
    "rl-zoo keeps one level an environment, rl_games two levels of its own",
    """The keys stand at one level of a nested file; `--key` names it where there are several.""",
)
page(
    "misspelt-key",
    "Ray issue 28452, among others",
    """A key that is almost one of the library's sizes.

    Libraries ignore unknown keys or crash late; a size that is silently left at its default changes the training. Keys
    that resemble no size are listed as not preserved instead.
    """,
)
page("other-dialect", _ARITHMETIC, "The config holds none of the dialect's sizes; the message names one that fits.")
page(
    "missing-key",
    "SB3, RSL-RL and skrl take the number of environments from the environment",
    """A size that the library does not default. The number of environments may come from `--num-envs`.""",
)
page(
    "family",
    "Ren et al. 2022",
    """RRD trains from a replay, the other dialects from rollouts; their sizes have no common meaning.""",
)
page(
    "strict",
    "Brax and PufferLib count in trajectories and segments",
    """With `--strict`, a shape that the target cannot say is an error.

    Without it rollout_size is kept, then minibatch_size, then the epochs; the window over which GAE runs gives way, and
    every change is listed.
    """,
)
page(
    "run",
    "the run directory's contract",
    """A folder that is not a run, holds another one, or has no checkpoint.

    `rollshape train` leaves run.json, metrics.jsonl and checkpoints/; `--resume` goes on with the same spec only.
    """,
)
page("checkpoint", "the run directory's contract", "A checkpoint that is torn or belongs to a run of another shape.")
page(
    "disk",
    "the run directory's contract",
    """The disk did not take a file of the run: it is full, over quota, read-only or not yours (exit code 1).

    Files are written to a temporary name, synced and renamed, and a row of metrics is added whole or not at all, so the
    last checkpoint is good: free some space, then `--resume`.
    """,
)
page("tracker", "the extras in pyproject.toml", "A place for metrics whose package is not installed.")
page("environment", "Gymnasium", "An environment that cannot be made, or whose observations have no fixed size.")
page(
    "layout",
    _ARITHMETIC,
    """Shards and microbatches must divide what they cut.

    num_shards cuts the environments and every minibatch into equal parts, one for a JAX device each; microbatch_size
    cuts such a part once more, so that its activations fit the cache. Neither changes what is learned from which
    samples, but both fix the order of sums, so they belong to the spec and not to the machine. On a CPU a device is
    only a thread: two shards give the same bits on one core and on eight.
    """,
)
page(
    "study",
    "the study file's contract",
    """A study file, or a folder of a study, that cannot be meant.

    A study holds env, algo, fixed, grid or points, seeds, probe, lr_rule, lr_reference, evaluate_every, title, claim.
    Every field of a run may be fixed or varied. A point that breaks another rule is shown with it, and the rest is run.
    """,
)
page(
    "independent-environments",
    "the coverage of the intervals, measured in tests/gradients",
    """Statistics of gradients need at least 32 independent environments.

    Steps of one environment are correlated, so an interval is a bootstrap over environments; with fewer of them it
    would claim more than the data holds.
    """,
)
page(
    "replay-length",
    "Ren et al. 2022: only finished episodes enter the reward batch",
    """The replay must hold whole episodes.

    RRD learns from the return of an episode, so all of its timesteps must still be there when it ends. Each environment
    has buffer_size / num_envs places, and an episode of T steps takes T + 1 of them: every observation is stored once,
    the last one, too. An iteration must fit as well.
    """,
)
