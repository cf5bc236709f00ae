"""Recommendations in a report: of a race, and of a study whose runs have finished."""

from __future__ import annotations

from rollshape.errors import RequestError
from rollshape.geometry.dialects import DIALECTS
from rollshape.geometry.dialects.text import as_yaml
from rollshape.geometry.plan import Plan
from rollshape.reports.document import Block, Bullets, Code, Details, Section, Table, Text
from rollshape.reports.figures.race import race_grid
from rollshape.reports.report_data import ReportData
from rollshape.studies.racing.advice import Advice, advise_from
from rollshape.studies.racing.advise import dialect_config
from rollshape.studies.racing.race import Race
from rollshape.studies.racing.why import OBJECTIVE_NAMES, describe_groups, explain, format_score
from rollshape.studies.recommendation import TaskChoice, choose_group, train_command
from rollshape.training.spec import Spec

CONFIGS = (
    "sb3",
    "cleanrl",
    "rl_games",
    "rsl_rl",
    "skrl",
    "sb3:a2c",
    "torchrl:a2c",
)  # the report has those of its algorithm


def race_advice(data: ReportData) -> tuple[Race, Advice] | None:
    """Return the race of a study and its answer; None if it is not a race, or not over."""
    race = data.state.race if data.state else None
    if race is None or race.next_trials() or race.decision().best is None:
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
        cost = f"The race took {advice.share:.1%} of training all candidates with all seeds to the end."
        return [
            " ".join([f"Use {advice.best.candidate.label}.", *describe_groups(advice), cost]),
            *explain(advice, race),
        ]
    if data.state is not None and data.state.race is not None:
        return ["The race is not over: run the same command again to resume it."]
    choices = task_choices(data)
    return [f"On {choice.task.label}: {choice.sentence()}" if len(choices) > 1 else choice.sentence()
            for choice in choices]  # fmt: skip


def recommended_commands(data: ReportData) -> list[str]:
    """Return the command that trains what is recommended, one per task."""
    answer = race_advice(data)
    if answer is not None:
        best = answer[1].best.candidate
        return [train_command(best.spec, best.plan)]
    return [choice.command() for choice in task_choices(data)]


def config_blocks(spec: Spec, plan: Plan) -> list[Block]:
    """Return the config of spec and plan for common libraries, each behind a click."""
    blocks: list[Block] = []
    for name in CONFIGS:
        dialect = DIALECTS[name]
        if dialect.algo != plan.algo:
            continue
        try:
            config, not_preserved = dialect_config(spec, plan, name)
        except RequestError:  # the library cannot run it
            continue
        lost: list[Block] = [Text("Not preserved:", "small"), Bullets(not_preserved)] if not_preserved else []
        blocks.append(Details(f"Config for {dialect.library}", [Code(as_yaml(config).rstrip()), *lost]))
    return blocks


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
        name = f"On {choice.task.label}: " if len(choices) > 1 else ""
        blocks += [Text(name + choice.sentence(), "strong"), Code(choice.command())]
        blocks += config_blocks(choice.best.spec, choice.best.plan)
    blocks.append(
        Text("Tied: no significant difference in final return (95 % level, corrected for the number of pairs). "
             "rollshape translate writes these configs for other libraries.", "small")
    )  # fmt: skip
    return [Section("Recommendation", blocks)]


def _race_blocks(data: ReportData, race: Race, advice: Advice) -> list[Block]:
    objective = OBJECTIVE_NAMES[race.settings.objective]
    caption = (
        f"Every cell is a shape, colored by its estimated {objective}; brighter is better. Thick outline: best, thin "
        "outline: tied, dashed outline: not trained and not ruled out. Below the estimate: how many runs were "
        f"trained with this shape; the estimates of the others follow from similar shapes. “Out” says after "
        f"how many runs of the race a shape was ruled out; the table says by how much. {data.command}"
    )
    rows = [
        (
            item.candidate.label,
            item.label,
            format_score(item),
            "–" if item.measured is None else f"{item.measured:.4g}",
            str(item.num_seeds),
            item.reason,
        )
        for item in advice.ranking
    ]
    columns = ("shape", "status", "estimated score", "mean of own runs", "runs", "compared with the best")
    best = advice.best.candidate
    return [
        race_grid("race", advice, caption),
        Code(train_command(best.spec, best.plan)),
        *config_blocks(best.spec, best.plan),
        Table(columns, rows, f"Candidates, best first: {objective}, estimated from all runs, with its 95 % interval."),
    ]
