"""Records from the folders of finished studies."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from pathlib import Path

from evidence.records import VERDICTS, make_effect
from rollshape.geometry.rules.evidence import ClaimResult
from rollshape.studies.groups import Task, group_tasks
from rollshape.studies.records import read_records
from rollshape.studies.rules import RULES
from rollshape.studies.rules.base import ClaimVerdict
from rollshape.studies.rules.policy_loss import judge_policy_loss
from rollshape.studies.run import open_study

POLICY_LOSS = "policy-loss"
ALL_TASKS = ("steps-must-exceed-delay", "changing-envs-only-is-enough")  # rules that judge all tasks together
NOT_ABOUT_RESULTS = ("--jobs", "--out", "--engine", "--address")

# rule → the claims that its verdicts on a task are about, in their order
CLAIMS_OF_RULES: dict[str, tuple[str, ...]] = {
    "more-envs-is-better": ("more-envs",),
    "more-envs-is-worse-and-fails": ("more-envs-fail",),
    "fewer-steps-is-better": ("short-rollouts",),
    "fewer-epochs-is-better": ("epochs",),
    "more-timesteps-is-better": ("more-timesteps",),
    "minibatch-32-to-256-is-best": ("minibatch-range",),
    "quarter-minibatch-is-best": ("quarter",),
    "sqrt-learning-rate-is-best": ("sqrt-learning-rate",),
    "adaptive-kl-needs-large-minibatches": ("kl-adaptive",),
    "staggering-fixes-synchronized-resets": ("synchronized-resets",),
    "steps-must-exceed-delay": ("steps-exceed-delay",),
    "adjusted-curves-coincide": ("invariance",),
    "baselines-beat-larger-rollouts": ("baselines",),
    "changing-envs-only-is-enough": ("envs-only",),
    "larger-rrd-sizes-are-better": ("rrd-train-batches", "rrd-batch-size", "rrd-sample-size"),
}
ALSO = {  # rules by which the runs of a study are judged beside its own
    "minibatch-32-to-256-is-best": ("quarter-minibatch-is-best",),
    "sqrt-learning-rate-is-best": ("quarter-minibatch-is-best",),
}


def records_of_study(folder: Path) -> list[ClaimResult]:
    """Return the records of a study; a task is left out, and named, while one of its trials is missing."""
    state = open_study(folder)
    missing = {trial.spec.env for trial in state.trials if not state.results[trial.id].is_final}
    if missing:
        print(f"{folder}: not finished on {', '.join(sorted(missing))}")
    tasks = [task for task in group_tasks(read_records(folder)) if task.env not in missing]
    if not state.study.rule or not tasks:
        return []
    events = list(state.store.journal.events())
    command = shorten_command([event["command"] for event in events if event["event"] == "run"][-1])
    date = datetime.datetime.fromtimestamp(events[-1]["time"], datetime.UTC).date().isoformat()
    return [
        ClaimResult(
            claim=claim,
            task=label,
            verdict=VERDICTS[verdict.answer],
            effects=tuple(map(make_effect, verdict.effects)),
            seeds=min(len(group.runs) for task in judged for group in task.groups),
            scope=verdict.scope,
            command=command,
            date=date,
            origin="study",
        )
        for claim, label, judged, verdict in judge(state.study.rule, tasks)
    ]


def judge(rule: str, tasks: Sequence[Task]) -> list[tuple[str, str, Sequence[Task], ClaimVerdict]]:
    """Return (claim, task, tasks, verdict) for the study's own claims and those that its runs also answer."""
    verdicts = []
    parts = [list(tasks)] if rule in ALL_TASKS else [[task] for task in tasks]
    for part in parts:
        label = ", ".join(dict.fromkeys(task.env for task in part))
        for name in (rule, *ALSO.get(rule, ())):
            found = RULES[name].judge("", part)
            verdicts += [(claim, label, part, one) for claim, one in zip(CLAIMS_OF_RULES[name], found, strict=True)]
        if all(group.plan.replay is None for task in part for group in task.groups):
            verdicts.append((POLICY_LOSS, label, part, judge_policy_loss(part)))
    return verdicts


def shorten_command(command: str) -> str:
    """Leave out where and on how many cores a study ran: it does not change the results."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in NOT_ABOUT_RESULTS:
            next(words, None)
        elif not word.startswith(tuple(f"{flag}=" for flag in NOT_ABOUT_RESULTS)):
            kept.append(word)
    return shlex.join(kept)
