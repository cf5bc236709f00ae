"""Recommendations in a report: of a race, and of a study whose runs have finished."""

from __future__ import annotations

from rollshape.reports.document import Block, Code, Section, Table, Text
from rollshape.reports.figures.race import race_grid
from rollshape.reports.report_data import ReportData
from rollshape.studies.racing.advice import Advice, advise_from
from rollshape.studies.racing.race import Race
from rollshape.studies.racing.why import OBJECTIVE_NAMES, explain, format_score, list_labels
from rollshape.studies.recommendation import TaskChoice, choose_group


def race_advice(data: ReportData) -> tuple[Race, Advice] | None:
    """Return the race of a study and its answer; None if it is not a race, or not over."""
    race = data.state.race if data.state else None
    if race is None or race.next_trials() or not race.decision().rungs:
        return None
    return race, advise_from(race)


def task_choices(data: ReportData) -> list[TaskChoice]:
    """Return what to use on every task whose runs have finished."""
    is_race = data.state is not None and data.state.race is not None
    choices = [] if is_race else [choose_group(task) for task in data.tasks]
    return [choice for choice in choices if choice is not None]


def recommend_in_sentences(data: ReportData) -> list[str]:
    """Return the recommendation as the first lines of a report."""
    answer = race_advice(data)
    if answer is not None:
        race, advice = answer
        tied, dropped = advice.with_status("tied"), advice.with_status("dropped")
        return [
            f"Use {advice.best.candidate.label}."
            + (f" Tied: {list_labels(tied)}." if tied else "")
            + (f" Avoid {list_labels(dropped)}." if dropped else "")
            + f" The race took {advice.share:.1%} of training all candidates with all seeds to the end.",
            *explain(advice, race),
        ]
    choices = task_choices(data)
    return [f"On {choice.task.label}: {choice.sentence()}" if len(choices) > 1 else choice.sentence()
            for choice in choices]  # fmt: skip


def advice_sections(data: ReportData) -> list[Section]:
    """Return the section of a race, or the section that says how to train the best shape of a study."""
    answer = race_advice(data)
    if answer is not None:
        return [Section("Race", _race_blocks(data, *answer))]
    choices = task_choices(data)
    if not choices:
        return []
    blocks: list[Block] = []
    for choice in choices:
        blocks += [Text(choice.sentence(), "strong"), Code(choice.command())]
    blocks.append(
        Text("Tied: no significant difference in final return (95 % level, corrected for the number of pairs). For "
             "a config of another library: rollshape advise --to DIALECT, or rollshape translate.", "small")
    )  # fmt: skip
    return [Section("Recommendation", blocks)]


def _race_blocks(data: ReportData, race: Race, advice: Advice) -> list[Block]:
    objective = OBJECTIVE_NAMES[race.settings.objective]
    caption = (
        f"Every cell is a shape, with the {objective} when it was last compared. Brighter is better among the shapes "
        "that were compared at the same time; thick outline: best, thin outline: tied. “10% of run” is how far a "
        f"shape had been trained when the race went on without it. {data.command}"
    )
    rows = [
        (item.candidate.label, item.status, format_score(item), f"{item.share:.0%}", str(item.num_seeds), item.reason)
        for item in advice.ranking
    ]
    columns = ("shape", "status", "score", "of the run", "seeds", "compared with the best")
    best = advice.best.candidate
    flags = {name: getattr(best.plan, name) for name in ("num_envs", "num_steps", "minibatch_size", "num_epochs")}
    command = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    return [
        race_grid("race", advice, caption),
        Code(f"rollshape train --env {best.spec.env} --total-timesteps {best.spec.total_timesteps} {command} "
             f"--learning-rate {best.spec.learning_rate:g}"),
        Table(columns, rows, f"Candidates, best first: {objective}, mean over seeds with its 95 % interval."),
    ]  # fmt: skip
