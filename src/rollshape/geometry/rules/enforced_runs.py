"""Pages of the enforced rules on runs, environments, studies, processes and the page."""

from __future__ import annotations

from rollshape.geometry.rules.base import page

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
    """A race needs two shapes that can be trained.

    Shapes that violate another rule are left out; with fewer than two legal ones nothing starts (exit code 2, with the
    reason of the first). If every candidate diverged, failed or ran out of memory, the race has failed (exit code 1):
    what was trained is kept, and the same command tries the failed ones once more.
    """,
)
page(
    "cluster",
    "Ray waits forever for a node that has died",
    """The Ray cluster of a study was lost while the study was running (exit code 1).

    Trials that have ended are kept. Run the same command again: the other trials start over.
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
