"""Progress bars on stderr: training in updates, scoring in episodes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollshape.training.evaluate import ScoreProgress


def progress_bar() -> Any:
    """Return a bar; its tasks have the fields `unit` and `status`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}  {task.fields[status]}"),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )


class ScoreLine:
    """A line of a bar, `scoring ━━━ 32/128 episodes  return 12.3 ± 4.5`, that appears with the first progress."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None

    def on_score(self, progress: ScoreProgress) -> None:
        """Show how far the score is; a new score starts at 0 episodes."""
        if not self._bar.live.is_started:
            self._bar.start()
        if self._task is None:
            self._task = self._bar.add_task("scoring", total=progress.episodes, unit="episodes", status="")
        elif progress.played == 0:
            self._bar.reset(self._task, total=progress.episodes, unit="episodes", status="")
        status = f"return {format_score(progress.score)}" if progress.score else ""
        self._bar.update(self._task, completed=progress.played, status=status)


def format_score(score: Any) -> str:
    """Return `12.3 ± 4.5`: the mean and half the width of its 95 % interval."""
    return f"{score.mean:.1f} ± {score.half_width:.1f}"
