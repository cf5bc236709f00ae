"""The episodes of SB3's monitor files on the axis of environment steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rollshape.geometry.plan import Plan
from rollshape.integrations.logs.library import LibraryLog
from rollshape.integrations.logs.merging import MergedLog, merge
from rollshape.integrations.logs.sb3_files import ELAPSED, MonitorFile
from rollshape.integrations.logs.sb3_tags import MONITOR_LENGTH, MONITOR_RETURN
from rollshape.integrations.logs.series import LogFile

SKIP_RATIO = 1.2  # of the steps that monitor files count to those of the learner, from which on frames are skipped


def add_episodes(
    merged: MergedLog, monitors: list[MonitorFile], plan: Plan, library: LibraryLog, notes: list[str]
) -> MergedLog:
    """Add the episodes of monitor files, unless there are files of only some of the environments.

    Monitor counts the steps inside of wrappers that are applied after it. With a frame skip of 4, these are four times
    as many as those of the learner: such episodes have no place on the axis.
    """
    num_envs = plan.num_envs
    if len(monitors) not in (1, num_envs):
        notes.append(f"{len(monitors)} monitor files for {num_envs} environments: they are not used")
        return merged
    if len(monitors) == 1 and num_envs > 1 and "rollout/ep_rew_mean" in merged.log.scalars:
        notes.append(f"{monitors[0].path.name} mixes {num_envs} environments: rollout/ep_rew_mean is used instead")
        return merged
    steps = max(sum(monitor.lengths) for monitor in monitors) * (num_envs if len(monitors) > 1 else 1)
    learner = learner_steps(merged.log, plan)
    if learner is not None and steps > SKIP_RATIO * learner + plan.rollout_size:
        notes.append(
            f"the monitor files count {steps:,} steps, but the learner at most {learner:,.0f}: a wrapper skips "
            "frames, so they are not used"
        )
        return merged
    if learner is None:
        notes.append("timesteps are those that the monitor files count; with a frame skip the learner makes fewer")
    placed = place_episodes(
        monitors,
        num_envs,
        (MONITOR_RETURN, MONITOR_LENGTH),
        with_times=not (merged.sessions or ELAPSED in merged.log.scalars),
    )
    return MergedLog(merge(merged.log.path, [merged.log, placed], library).log, merged.sessions)


def learner_steps(log: LogFile, plan: Plan) -> float | None:
    """Return the most environment steps that the learner can have made: by its log, else by its budget."""
    logged = [max(log.scalars[tag].steps) for tag in ("time/fps", "time/iterations") if tag in log.scalars]
    evaluated = log.scalars["eval/mean_reward"].steps if "eval/mean_reward" in log.scalars else ()
    if not logged and len(evaluated):  # the run may have continued up to the next evaluation
        logged = [max(evaluated) + min(evaluated)]
    return max(logged) if logged else plan.total_timesteps


def place_episodes(files: Sequence[MonitorFile], num_envs: int, tags: tuple[str, str], *, with_times: bool) -> LogFile:
    """Return the episodes of all environments on the axis of environment steps.

    Environments step together. So an episode of the i-th environment ends after (sum of its lengths so far) vector
    steps, which are num_envs times as many environment steps. This needs one file per environment; in the single file
    of VecMonitor the environments are mixed, and an episode is placed at the steps of all episodes that have ended.
    `tags` are those of return and length. Times are seconds since the start, unlike those of event files.
    """
    log = LogFile(files[0].path.parent)
    is_mixed = len(files) == 1 and num_envs > 1
    points: list[tuple[float, float, float, float]] = []
    for file in files:
        steps = 0
        for score, length, time in zip(file.returns, file.lengths, file.times, strict=True):
            steps += length
            points.append((float(steps if is_mixed else steps * num_envs), time, score, length))
        log.notes += file.notes
    if is_mixed:
        log.notes.append(
            f"{files[0].path.name} holds the episodes of {num_envs} environments without saying which: an episode is "
            "placed at the steps of the episodes that ended before, which leaves out those that were running"
        )
    for place, time, score, size in sorted(points):
        log.add(tags[0], place, time if with_times else math.nan, score)
        log.add(tags[1], place, time if with_times else math.nan, size)
    return log
