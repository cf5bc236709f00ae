"""Pages of the enforced rules on configs and logs of other libraries."""

from __future__ import annotations

from rollshape.geometry.rules.base import page

_ARITHMETIC = "arithmetic"

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
