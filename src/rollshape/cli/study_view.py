"""What `rollshape study` shows: a live table of running trials, and a table of points at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollshape.cli.output import console
from rollshape.studies.documents import TrialState
from rollshape.studies.events import Event
from rollshape.studies.metrics import MetricsRow
from rollshape.studies.run import StudyState
from rollshape.studies.store import FINAL_STATES
from rollshape.studies.trials import IllegalPoint, Trial, format_point


class StudyView:
    """A context in which `run_study(…, on_start=view.on_start, on_event=view.on_event)` shows its progress.

    Without a terminal it prints plain lines; if it is `quiet`, nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._trials: dict[str, Trial] = {}
        self._running: dict[str, tuple[float, MetricsRow | None]] = {}  # trial → (start, last row)
        self._states: dict[str, TrialState] = {}
        self._start_time, self._start_steps = time.monotonic(), 0
        self._paused: dict[str, int] = {}  # trial → timesteps so far
        self._budget: int | None = None  # timesteps of a race
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table, transient=True)

    def __enter__(self) -> StudyView:
        if self._console.is_terminal and not self._console.quiet:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def on_start(self, state: StudyState) -> None:
        for point in state.illegal:
            self._print(_describe_illegal(point))
        if not state.expansion.aligned:
            self._print(
                "Rollouts do not divide the steps between two evaluations: every trial is scored at its nearest update."
            )
        if state.race is not None:
            self._budget = round(state.race.settings.budget * state.race.full_timesteps())
        self._paused = {name: result.timesteps for name, result in state.results.items() if result.state == "paused"}
        self.set_trials(state.trials, {trial.id: state.results[trial.id].state for trial in state.trials})
        self._print(f"{escape(state.study.title)}: {len(self._trials)} trials, {self._num_finished()} already finished")

    def set_trials(self, trials: Sequence[Trial], states: dict[str, TrialState]) -> None:
        """Set the trials whose events will follow, and their states before the first event."""
        self._trials, self._states = {trial.id: trial for trial in trials}, states
        self._start_time, self._start_steps = time.monotonic(), self._num_steps()

    def on_event(self, event: Event) -> None:
        if event.kind == "begin":
            self._running[event.trial] = (time.monotonic(), None)
        elif event.kind == "row":
            start, _ = self._running.get(event.trial, (time.monotonic(), None))
            self._running[event.trial] = (start, event.row)
        elif event.kind != "note":
            self._running.pop(event.trial, None)
        if event.kind == "note":
            self._print(escape(f"{event.trial}: {event.reason}" if event.trial else event.reason))
        if event.kind == "retry":
            self._print(f"{event.trial}: its worker died {escape(event.reason)}; trying once more")
        if event.kind == "end" and event.result is not None:
            self._states[event.trial] = event.result.state
            if event.result.state == "paused":
                self._paused[event.trial] = event.result.timesteps
            if event.result.state == "paused" and self._console.is_terminal:
                return
            if not event.result.is_final or not self._console.is_terminal:
                self._print(escape(self._describe_end(event)))

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _describe_end(self, event: Event) -> str:
        result = event.result
        assert result is not None
        if result.state == "paused":
            return f"{event.trial} paused after {result.timesteps:,} timesteps"
        detail = result.reason or ("" if result.final_return is None else f"return {result.final_return:.1f}")
        return f"[{self._num_finished()}/{len(self._states)}] {event.trial} {result.state} {detail}".rstrip()

    def _num_finished(self) -> int:
        return sum(state in FINAL_STATES for state in self._states.values())

    def _num_steps(self) -> int:
        """Return the timesteps of all trials so far; a trial that has ended counts fully."""
        total = 0
        for name, trial in self._trials.items():
            _, row = self._running.get(name, (0.0, None))
            state = self._states[name]
            if state == "paused":
                total += row.timesteps if row else self._paused.get(name, 0)
                continue
            has_ended = state not in ("pending", "failed") or (state == "failed" and row is None)
            total += (trial.plan.actual_timesteps or 0) if has_ended else row.timesteps if row else 0
        return total

    def _table(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for name in ("trial", "shape", "seed", "progress", "return", "steps/s", "time left"):
            table.add_column(name, justify="left" if name in ("trial", "progress") else "right")
        for name, (start, row) in list(self._running.items()):  # a copy: rich draws in another thread
            table.add_row(*_running_cells(self._trials[name], start, row))
        failed = sum(state == "failed" for state in self._states.values())
        total = self._budget or sum(trial.plan.actual_timesteps or 0 for trial in self._trials.values())
        steps = self._num_steps() - self._start_steps
        seconds = time.monotonic() - self._start_time
        time_left = max(0, total - self._num_steps()) * seconds / steps if steps > 0 else None
        done = f"{self._num_steps() / total:.0%} of the race's budget" if self._budget else ""
        line = (
            (done or f"{self._num_finished()} of {len(self._trials)} finished")
            + (f", {failed} failed" if failed else "")
            + f", {_format_seconds(time_left)} left"
        )
        return Group(table, Text(line, style="dim"))


def _running_cells(trial: Trial, start: float, row: MetricsRow | None) -> tuple[Any, ...]:
    if row is None:
        return trial.id, trial.shape, str(trial.seed), "compiling", "–", "–", "–"
    total = trial.plan.actual_timesteps or 1
    share = row.timesteps / total
    time_left = (time.monotonic() - start) * (1 - share) / share
    bar = ProgressBar(total=total, completed=row.timesteps, width=24)
    score = "–" if row.score is None else f"{row.score:.1f}"
    return trial.id, trial.shape, str(trial.seed), bar, score, f"{row.sps:,}", _format_seconds(time_left)


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def _describe_illegal(point: IllegalPoint) -> str:
    return f"[yellow]illegal[/] {escape(format_point(point.point))}: {escape(point.message)}"


def show_state(state: StudyState) -> None:
    """Print one line per point, then illegal points and failed trials with their reasons."""
    out = console()
    table = Table(box=None, pad_edge=False)
    for name in ("point", "shape", "finished", "final return", "95 % interval"):
        table.add_column(name, justify="left" if name == "point" else "right")
    for point in state.point_summaries():
        score = point.final_return
        value = "–" if score is None else f"{score.value:.1f} {'iqm' if score.method == 'iqm' else ''}".strip()
        interval = "–" if score is None or score.low is None else f"{score.low:.1f} … {score.high:.1f}"
        table.add_row(
            escape(format_point(point.point)), f"{point.num_envs}×{point.num_steps}",
            f"{point.num_finished}/{len(point.states)}", value, interval,
        )  # fmt: skip
    out.print(table)
    for illegal in state.illegal:
        out.print(_describe_illegal(illegal))
        out.print(f"        [dim]{escape(illegal.fix)}[/]")
    for trial in state.trials:
        result = state.results[trial.id]
        if result.state in ("failed", "diverged"):
            out.print(f"[red]{result.state}[/] {trial.id}: {escape(result.reason)}")
    out.print(escape(str(state.store.path)))
