"""Flags that describe the log of another library, where its own files do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.flags import CommonArgs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rollshape.integrations.logs.importing import SkippedLog
    from rollshape.integrations.logs.sizes import ImportOptions


@dataclass(frozen=True, kw_only=True)
class LogArgs(CommonArgs):
    """Flags of all commands that read logs of other libraries."""

    dialect: Annotated[str | None, "logs: library that wrote them (default: recognized by its tags)"] = None
    config: Annotated[str | None, "logs: config file of the runs, if it is not beside the log"] = None
    key: Annotated[str | None, "logs: level of a nested --config, for example an environment of rl-zoo"] = None
    env: Annotated[str | None, "logs: id of the environment, if neither config nor log names it"] = None
    num_envs: Annotated[int | None, "logs: number of environments"] = None
    num_steps: Annotated[int | None, "logs: steps per environment in each rollout"] = None
    minibatch_size: Annotated[int | None, "logs: samples per gradient step"] = None
    num_minibatches: Annotated[int | None, "logs: minibatches per epoch"] = None
    num_epochs: Annotated[int | None, "logs: passes over each rollout"] = None
    total_timesteps: Annotated[int | None, "logs: planned environment steps"] = None

    def import_options(self) -> ImportOptions:
        """Return what the flags say about the log."""
        from rollshape.integrations.logs.sizes import ImportOptions

        return ImportOptions(
            self.dialect, self.config, self.key, self.env, self.num_envs, self.num_steps, self.minibatch_size,
            self.num_minibatches, self.num_epochs, self.total_timesteps,
        )  # fmt: skip


def show_skipped(skipped: Sequence[SkippedLog]) -> None:
    """Print to stderr which logs of a folder could not be imported, and why."""
    from rich.markup import escape

    from rollshape.cli.output import console
    from rollshape.integrations.logs.reading import printable

    out = console(to_stderr=True)
    for log in skipped:
        out.print(f"[yellow]skipped[/] {escape(printable(str(log.source)))}: {escape(printable(log.error.message))}")
        out.print(f"        [dim]{escape(log.error.fix)}[/dim]")
