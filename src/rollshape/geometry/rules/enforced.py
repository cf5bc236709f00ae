"""Pages of the enforced rules: violating one is an error before anything starts."""

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
    "flags",
    "the help of the command",
    """Unknown flag or command, or a value of the wrong type.

    Flags are kebab-case; underscores are accepted. Integers may be written as 500_000, 1e6 or 100M.
    """,
)
page(
    "file",
    _ARITHMETIC,
    """A file cannot be read or written, or is not a config: YAML, JSON, TOML, INI, Python, a run folder, an SB3 model.

    Nothing in a file is executed: Python is read by its syntax tree, tags of YAML are kept as plain values, and pickled
    parts of a model are not loaded. Files are replaced atomically, and an edit that would change more than the intended
    values is not written.
    """,
)
page(
    "reference",
    "IsaacGymEnvs: num_actors is ${....task.env.numEnvs}",
    """A size refers to a value that is not in the config, or is computed by code. `--num-envs` overrides the number of
    environments.
    """,
)
page(
    "incomplete",
    "Isaac Lab and legged_gym: a config class inherits from one in another file",
    """A size is missing, and the file that may define it is not in the source tree: a default could be wrong.""",
)
page(
    "level",
    "rl-zoo has one level per environment, rl_games has two levels",
    """All keys must be at one level of a nested file; use `--key` to select it if there are several.""",
)
page(
    "rescale",
    "docs/rescale.md",
    """A rescaled config must run exactly the sizes that its policy asks for.

    The edited config is read again. If another key overrides a size, or the learning rate is not a number that can be
    scaled, nothing is written.
    """,
)
page(
    "misspelt-key",
    "Ray issue 28452, among others",
    """A key is almost identical to one of the library's size keys.

    Libraries ignore unknown keys or crash late, and a size that silently keeps its default changes the training.
    Unknown keys that do not resemble a size are listed as not preserved instead.
    """,
)
page(
    "other-dialect",
    _ARITHMETIC,
    "The config contains none of the dialect's size keys; the message suggests the dialect that fits.",
)
page(
    "missing-key",
    "SB3, RSL-RL and skrl take the number of environments from the environment",
    """A required size is missing and has no default. `--num-envs` sets the number of environments.""",
)
page(
    "family",
    "the libraries' own names of their algorithms; Ren et al. 2022 (RRD)",
    """The config is for an algorithm that the dialect does not plan.

    The algorithm is named by a key (`run` of RLlib, `system_name` of Stoix, `params.algo.name` of rl_games,
    `agent.class` of skrl, `algorithm.class_name` of RSL-RL, `algo`), by the level (rejax: `ppo`, `sac`), by keys that
    only one algorithm has, or by the file (`a2c.yml`). Off-policy algorithms train from a replay buffer and have no
    rollout to plan; `rollshape plan --algo sac` and `--algo rrd` plan the two that Rollshape trains. If nothing names
    the algorithm, the notes say what the config is read as.
    """,
)
page(
    "fragment",
    "Stoix reads arch and system from two files",
    """The key that has to change belongs to another file of the library.

    Added to this file it would have no effect. Set it in the file that the message names, or patch the complete config.
    """,
)
page(
    "strict",
    "Brax and PufferLib count in trajectories and segments",
    """With `--strict`, a shape that the target library cannot express is an error.

    Without it, the translation keeps rollout_size first, then minibatch_size, then the number of epochs; the GAE window
    may change, and every change is listed.
    """,
)
page(
    "run",
    "format of the run directory",
    """The directory is not a run, contains another run, or has no checkpoint.

    `rollshape train` writes run.json, metrics.jsonl and checkpoints/; `--resume` requires the same spec.
    """,
)
page(
    "checkpoint",
    "format of the run directory",
    """The checkpoint is damaged, or belongs to a run of another shape.

    A checkpoint ends with a checksum of its content, which is verified before anything is loaded. `--resume` renames a
    damaged checkpoint to NAME.damaged and continues from the previous good one; other commands refuse it.
    """,
)
page(
    "metrics",
    "format of the run directory",
    """A row of metrics.jsonl is missing or damaged, or another program wrote to the file.

    Each checkpoint stores the checksum of the rows before it, and run.json that of a finished run. The rows are checked
    before a resume changes anything.
    """,
)
page(
    "owner",
    "format of the run directory",
    """Another process is writing to this directory.

    A run directory is locked by the process that trains in it. The lock ends with the process, however it ends.
    """,
)
page(
    "trainer",
    "format of the run directory",
    """A run that another library trained cannot be continued or evaluated here.

    Rollshape records or imports its config and metrics, not its policy. `rollshape diagnose` and `rollshape report`
    take such a run, and `rollshape probe` shows what was measured while it was recorded.
    """,
)
page(
    "disk",
    "format of the run directory",
    """A file of the run could not be written: the disk is full, over quota or read-only (exit code 1).

    Files are written under a temporary name, synced and renamed, and a row of metrics is appended completely or not at
    all, so the last checkpoint is intact: free some space, then use `--resume`.
    """,
)
page(
    "interrupted",
    "POSIX signals",
    """A signal stopped the command: Ctrl-C (exit code 130) or SIGTERM (exit code 143).

    `train` and `study` save their state first and can be continued. A second signal stops them immediately; then the
    last checkpoint is intact.
    """,
)
page("tracker", "the extras in pyproject.toml", "The package of a metrics logger is not installed.")
page(
    "environment",
    "Gymnasium",
    """The environment cannot be created, its observations have no fixed size, or a call into it failed.

    An environment is an id (docs/environments.md), or from Python a class, function or instance. A run whose
    environment is neither registered nor in a module can only be opened from Python, with the same `env`. `rollshape
    check-env` shows whether an environment does what training expects.

    The message names the environment and its step. A call that does not return within `--env-timeout` is a failure;
    `--isolate-env` runs environments in a process of their own, so that a crash is an error, too.
    """,
)
page(
    "trust",
    "importing a Python module executes it",
    """The environment of a run, study file or config is in a module that is not an installed package.

    `eval`, `probe` and `reproduce` import the module that the run directory names. Installed packages and modules that
    are already imported are accepted; any other module only with `--trust`. A study file or a config may name such a
    module only if `--env` names it, too. A module that the user names is also looked for in the current folder.
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
    "platform",
    "command line",
    """The requested platform is not available.

    JAX computes on a GPU or TPU only if it was installed for it. Without --platform it uses the fastest that it finds.
    """,
)
page(
    "processes",
    "command line",
    """The processes of a run cannot work together.

    A run on several processes needs a coordinator that all of them reach, distinct numbers from 0 on, a functional
    environment, and a number of shards that is a multiple of the number of processes. If one process fails, so do the
    others.
    """,
)
page(
    "study",
    "format of the study file",
    """The study file, or the directory of a study, is invalid.

    A study has the keys env, algo, fixed, grid or points, seeds, probe, lr_rule, lr_reference, evaluate_every, race,
    title and claim. Every field of a run can be fixed or varied. Points that violate another rule are reported, and
    the rest is run.
    """,
)
page(
    "race",
    "rollshape advise",
    """No shape of a race could be trained (exit code 1).

    Every candidate diverged, failed or did not fit into memory. What was trained is kept, and the same command tries
    the failed ones once more.
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
page(
    "cluster",
    "Ray waits forever for a node that has died",
    """The Ray cluster of a study was lost while the study was running (exit code 1).

    Trials that have ended are kept. Run the same command again: the other trials start over.
    """,
)
page(
    "log",
    "the formats of TensorBoard, Stable-Baselines3 and W&B",
    """A log of another library must be readable, and its values must have a place on the axis of environment steps.

    A file that ends in the middle of a record, as after kill -9, is read up to there; so is a damaged one, and a note
    says so. Files of unknown formats, and files above the limits of size, number of tags and number of values, are
    refused. Two runs that wrote to the same folder at the same time are refused, because their values cannot be
    separated.
    """,
)
page(
    "log-library",
    "docs/metrics.md",
    """The library that wrote a log is recognized by its tags, or given with `--dialect`.

    The same tag means different things in different libraries. So a log whose tags belong to no known library, or to
    another one than the one that was given, is refused.
    """,
)
page(
    "log-sizes",
    "docs/import.md",
    """The sizes of an imported run must be known, and must agree with its log.

    They come from the config beside the log, from the config in the log (CleanRL, W&B), from `--config`, or from flags.
    Nothing is assumed without a config. Where the steps of the log show the size of a rollout, it is compared with the
    sizes: the config of another run is refused.
    """,
)
page("page", "the extras in pyproject.toml", "`rollshape ui` needs Starlette and uvicorn: pip install 'rollshape[ui]'.")
page("port", "the operating system", "`rollshape ui` needs a free port on 127.0.0.1. Without --port it finds one.")
page(
    "origin",
    "cross-site requests and DNS rebinding",
    """The server of `rollshape ui` answers pages of its own only.

    A request must name the loopback interface in its Host header, its Origin must be the server's own, and a call with
    a body must be JSON. So a page of another site can neither read runs nor start anything.
    """,
)
