"""What `rollshape study` shows: a live table of the trials under way, and a table of points at the end."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollshape.cli.output import console
from rollshape.studies.engines.pool import Event
from rollshape.studies.run import Outcome
from rollshape.studies.store import FINAL
from rollshape.studies.trials import Trial, labelled


class StudyView:
    """`with StudyView() as view: run_study(…, begun=view.begun, watch=view.watch)`; plain lines where there is no
    terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._trials: dict[str, Trial] = {}
        self._running: dict[str, tuple[float, dict[str, Any] | None]] = {}
        self._states: dict[str, str] = {}
        self._started, self._steps_before = time.monotonic(), 0
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table, transient=True)

    def __enter__(self) -> StudyView:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def begun(self, outcome: Outcome) -> None:
        for point in outcome.illegal:
            self._say(f"[yellow]illegal[/] {escape(labelled(point.point))}: {escape(point.message)}")
        if not outcome.expansion.aligned:
            self._say("The rollouts have no common multiple to score at: scores fall on the nearest update.")
        self._trials = {trial.id: trial for trial in outcome.trials}
        self._states = {trial.id: outcome.results[trial.id].state for trial in outcome.trials}
        ended = sum(state in FINAL for state in self._states.values())
        self._say(f"{escape(outcome.study.title)}: {len(self._trials)} trials, {ended} of them ended before")
        self._started, self._steps_before = time.monotonic(), self._steps()

    def watch(self, event: Event) -> None:
        if event.kind == "begin":
            self._running[event.trial] = (time.monotonic(), None)
        elif event.kind == "row":
            began, _ = self._running.get(event.trial, (time.monotonic(), None))
            self._running[event.trial] = (began, event.row)
        else:
            self._running.pop(event.trial, None)
        if event.kind == "retry":
            self._say(f"{event.trial}: its worker died {escape(event.reason)}; once more")
        if event.kind == "end" and event.result is not None:
            self._states[event.trial] = event.result.state
            if event.result.state not in FINAL or not self._console.is_terminal:
                self._say(escape(self._ended(event)))

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _ended(self, event: Event) -> str:
        assert event.result is not None
        score = event.result.summary.get("final_return")
        told = event.result.reason or ("" if score is None else f"return {score:.1f}")
        ended = sum(state in FINAL for state in self._states.values())
        return f"[{ended}/{len(self._states)}] {event.trial} {event.result.state} {told}".rstrip()

    def _steps(self) -> int:
        """Timesteps of this study that are behind us."""
        total = 0
        for name, trial in self._trials.items():
            _, row = self._running.get(name, (0.0, None))
            ended = self._states[name] not in ("pending", "failed") or (self._states[name] == "failed" and row is None)
            total += (trial.plan.actual_timesteps or 0) if ended else row["timesteps"] if row else 0
        return total

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "shape", "seed", "progress", "return", "steps/s", "time left"):
            table.add_column(name, justify="left" if name in ("trial", "progress") else "right")
        for name, (began, row) in list(self._running.items()):  # it is drawn from a thread of its own
            table.add_row(*self._row(self._trials[name], began, row))
        ended = sum(state in FINAL for state in self._states.values())
        failed = sum(state == "failed" for state in self._states.values())
        total = sum(trial.plan.actual_timesteps or 0 for trial in self._trials.values())
        made = self._steps() - self._steps_before
        left = (total - self._steps()) * (time.monotonic() - self._started) / made if made > 0 else None
        line = (
            f"{ended} of {len(self._trials)} ended"
            + (f", {failed} failed" if failed else "")
            + f", {_clock(left)} left"
        )
        return Group(table, Text(line, style="dim"))

    def _row(self, trial: Trial, began: float, row: dict[str, Any] | None) -> tuple[Any, ...]:
        if row is None:
            return trial.id, trial.shape, str(trial.seed), "compiling", "–", "–", "–"
        total = trial.plan.actual_timesteps or 1
        share = row["timesteps"] / total
        score = row["episodic_return"] if row["eval_return"] is None else row["eval_return"]
        left = (time.monotonic() - began) * (1 - share) / share
        bar = ProgressBar(total=total, completed=row["timesteps"], width=24)
        return (
            trial.id, trial.shape, str(trial.seed), bar, "–" if score is None else f"{score:.1f}", f"{row['sps']:,}",
            _clock(left),
        )  # fmt: skip


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def show_outcome(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    """A line a point, then what failed and why."""
    out = console()
    table = Table(box=None, pad_edge=False)
    for name in ("point", "shape", "ended", "final return", "95 % interval"):
        table.add_column(name, justify="left" if name == "point" else "right")
    for row in rows:
        score = row["final_return"]
        value = "–" if score is None else f"{score['value']:.1f} {score['method'] if score['method'] == 'iqm' else ''}"
        interval = "–" if score is None or score["low"] is None else f"{score['low']:.1f} … {score['high']:.1f}"
        ended = sum(state in FINAL for state in row["states"])
        table.add_row(
            escape(labelled(row["point"])), f"{row['num_envs']}×{row['num_steps']}", f"{ended}/{row['trials']}",
            value.strip(), interval,
        )  # fmt: skip
    out.print(table)
    for point in outcome.illegal:
        out.print(f"[yellow]illegal[/] {escape(labelled(point.point))}: {escape(point.message)}")
        out.print(f"        [dim]{escape(point.fix)}[/]")
    for trial in outcome.trials:
        result = outcome.results[trial.id]
        if result.state in ("failed", "diverged"):
            out.print(f"[red]{result.state}[/] {trial.id}: {escape(result.reason)}")
    out.print(escape(str(outcome.store.path)))
