"""`write_report`: everything that a study or a folder of runs tells, its conclusion first, as one page."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import atomic_write, disk_errors
from rollshape.formatting import format_bytes
from rollshape.geometry import diagram
from rollshape.geometry.machine import machine
from rollshape.probes.quantities.cosine_maps import CosineMap
from rollshape.reports import figures, tables
from rollshape.reports.document import Block, Code, Document, Folded, Picture, Points, Section, Text
from rollshape.reports.html import page
from rollshape.reports.markdown import markdown
from rollshape.studies import ranking
from rollshape.studies.claims import Claim, verdicts
from rollshape.studies.claims import told as in_words
from rollshape.studies.curves import ALIGNMENTS
from rollshape.studies.diagnosis import Diagnosis, diagnosed
from rollshape.studies.groups import Task, tasks
from rollshape.studies.records import Record, read_records
from rollshape.studies.run import Outcome, open_study
from rollshape.studies.statistics import ENOUGH, SEPARATED
from rollshape.studies.store import Store
from rollshape.studies.trials import labelled
from rollshape.training.rundir import RunDirectory
from rollshape.training.spec import Spec

FIGURES = "report"  # the folder of the PNGs beside report.md
AGAIN = "write the report again"
STORIES = {
    "timesteps": "What a sample is worth: at equal timesteps.",
    "seconds": "What a second is worth, on the machine that ran it: compiling and scoring left out.",
    "gradient_steps": "What a gradient step is worth.",
}
OTHER_SIZES = (
    "These shapes collect different amounts before an update, and the error of a batch does not know how many updates "
    "the budget buys: a probe orders them by that error alone."
)


@dataclass(frozen=True)
class Material:
    """All that was read: runs by task, the study where there is one, and what was found in them."""

    path: Path
    outcome: Outcome | None
    records: list[Record]
    tasks: list[Task]
    claims: list[Claim]
    diagnoses: list[Diagnosis]


@dataclass(frozen=True)
class Report:
    """Where it was written, and what it says first."""

    html: Path
    markdown: Path
    title: str
    claims: list[Claim]
    summary: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "html": str(self.html),
            "markdown": str(self.markdown),
            "title": self.title,
            "verdict": self.claims[0].answer,
            "summary": self.summary,
            "claims": [claim.to_dict() for claim in self.claims],
        }


def write_report(path: Path) -> Report:
    """Write report.html, report.md and its PNGs into a study's folder or a folder of runs."""
    material = gather(path)
    document, claims = compose(material), material.claims
    folder = path / FIGURES
    with disk_errors(folder, AGAIN):
        folder.mkdir(exist_ok=True)
    for figure in _figures(document):
        with atomic_write(folder / f"{figure.name}.png", AGAIN) as file:
            file.write(figure.png)
    html, beside = path / "report.html", path / "report.md"
    for target, content in ((html, page(document)), (beside, markdown(document, FIGURES))):
        with atomic_write(target, AGAIN) as file:
            file.write(content.encode())
    return Report(html, beside, document.title, claims, list(document.summary))


def _figures(document: Document) -> list[Any]:
    from rollshape.reports.document import Figure

    return [block for section in document.sections for block in section.blocks if isinstance(block, Figure)]


def gather(path: Path) -> Material:
    """Read runs, study, verdicts; a RequestError where there is no run at all."""
    outcome = open_study(path) if Store(path).journal.exists() else None
    records = read_records(path)
    if not any(record.rows for record in records):
        raise RequestError("run", f"No run in {path} has a row of metrics yet.", "Run the study on, then report.")
    found = tasks(records)
    name, claim = (outcome.study.name, outcome.study.claim) if outcome else ("", "")
    return Material(path, outcome, records, found, verdicts(name, claim, found), diagnosed(records))


def compose(material: Material) -> Document:
    study = material.outcome.study if material.outcome else None
    own = material.claims[0]
    sections = [
        Section("The claim, and the verdict", _claims(material)),
        *(section for i, task in enumerate(material.tasks) for section in _task(material, task, i)),
        Section("What became of each run, and why", _diagnosis(material)),
        Section("What could not be run", _missing(material)),
        Section("The shapes", _plans(material)),
        Section("How it was made", _made(material)),
    ]
    title = study.title if study else f"Runs in {material.path.resolve().name}"
    return Document(title, own.answer, summary(material), sections)


def summary(material: Material) -> list[str]:
    """The conclusion in words: claim, reasons, and whether the gradient lab would have told."""
    lines = []
    own = [claim for claim in material.claims if not claim.aside]
    for claim in own:
        verdict = f" {claim.answer.capitalize()}." if len(own) > 1 else ""  # of one it stands above
        lines += ([f"Claim: {claim.claim}{verdict}"] if claim.claim else []) + [" ".join(claim.reasons)]
    runs = min((len(group.runs) for task in material.tasks for group in task.groups), default=0)
    if runs < ENOUGH:
        lines.append(f"{runs} run{'s' if runs != 1 else ''} a shape {'is' if runs == 1 else 'are'} an anecdote: "
                     f"from {ENOUGH} on intervals are bootstrapped.")  # fmt: skip
    for task in material.tasks:
        tested = [_tested(test) for test in ranking.tests(task) if test.measure == "final return"]
        lines += tested + [OTHER_SIZES] * (bool(tested) and not ranking.same_size(task))
    settled = [claim for claim in material.claims if claim.aside and claim.answer != "not settled"]
    return lines + [f"“{claim.aside}”: {claim.answer}. {' '.join(claim.reasons)}" for claim in settled]


def _tested(test: ranking.Test) -> str:
    found = test.ranking
    pairs = "one pair" if found.separated == 1 else f"{found.separated} pairs"
    order = (
        f"of the {pairs} that the runs separate it orders {found.concordant} rightly"
        if found.separated
        else "the runs separate no pair to test its order by"
    )
    return (
        f"A probe's {test.prediction.horizon} would have chosen {found.predicted_best}: regret "
        f"{in_words(found.regret)} in final return against {found.measured_best}; {order}."
    )


def _claims(material: Material) -> list[Block]:
    blocks: list[Block] = []
    for claim in material.claims:
        blocks += [
            Text(f"“{claim.claim}” {claim.answer.capitalize()}." if claim.claim else "No claim was made.", "strong"),
            Points(claim.reasons),
            Text(f"Rule: {claim.rule}", "small"),
        ]
    return blocks


def _task(material: Material, task: Task, number: int) -> list[Section]:
    """Scores, curves and the test of the gradient lab of one task."""
    where = f" on {task.label}" if len(material.tasks) > 1 else ""
    command = _command(material)
    found, finals = task.threshold(), task.scores()
    threshold = found[0] if found else None
    goal = f"“it” is a return of {threshold:.4g}, {found[1]}" if found else "no run has a score"
    how = f"interquartile mean and 95 % bootstrap interval from {ENOUGH} runs on, below it the mean and its t-interval"
    blocks: list[Block] = []
    if finals:
        caption = f"Final return of every run ({how}). {command}"
        blocks.append(figures.finals(f"finals-{number}", task, finals, caption))
    else:
        blocks.append(Text("No run has ended: there is no final return yet.", "strong"))
    caption = (
        f"Final return: mean of 128 fresh episodes after the last update; {how}. {goal}; medians are Kaplan and "
        "Meier's, with runs that never got there counted as such."
    )
    blocks.append(tables.scores(task, threshold, caption))
    if len(finals) > 1 and min(map(len, finals.values())) > 1:
        blocks.append(tables.improvement(finals, "P(a run of the row's shape ends higher than one of the column's), "
                                         "with its 95 % bootstrap interval; ties count half."))  # fmt: skip
    sections = [
        Section(f"Final scores{where}", blocks),
        Section(f"Learning curves{where}", _curves(task, number, command, threshold)),
    ]
    return [*sections, Section(f"Would the gradient have told?{where}", _lab(task, number, command))]


def _curves(task: Task, number: int, command: str, threshold: float | None) -> list[Block]:
    blocks: list[Block] = []
    if task.metric != "eval_return":
        blocks.append(
            Text("Not every run was scored on fresh episodes along the way: the curves are training returns.")
        )
    for by in ALIGNMENTS:
        caption = f"{STORIES[by]} Thin: every run; thick: centre with its 95 % interval. {command}"
        drawn = figures.curves(f"curves-{number}-{by.replace('_', '-')}", task, by, threshold, caption)
        if drawn is not None:
            blocks.append(drawn)
    return blocks or [Text("No run has a score yet.")]


def _lab(task: Task, number: int, command: str) -> list[Block]:
    """The ranking that probes predict, against the learning curves."""
    failed = sorted({document["error"] for group in task.groups for run in group.runs
                     for document in run.probes.values() if "error" in document})  # fmt: skip
    lost: list[Block] = [Points([f"A probe could not be made: {reason}" for reason in failed])] if failed else []
    documents = ranking.documents(task)
    rewards = {group.label: document for group in task.groups for run in group.runs
               for document in run.probes.values() if document.get("reward_surface")}  # fmt: skip
    if rewards:
        return [figures.rewards(f"rewards-{number}", rewards, "Left: squared error of the reward network's gradient at "
                "every way to cut the reward batch into subsequences (intervals of the variance are in the data). "
                "Right: what RRD makes of one episode's return, beside the rewards that were hidden. "
                f"{command}"), *lost]  # fmt: skip
    if not documents:
        return [Text("No run was probed, so there is no prediction to test. `probe: {at: [0.1, 0.5, 0.9]}` in the "
                     "study file, or `rollshape probe RUN_DIR`, adds one."), *lost]  # fmt: skip
    tested, found = ranking.tests(task), ranking.predictions(task)
    blocks: list[Block] = []
    if tested:
        blocks.append(tables.rankings(tested, "Regret: how much lower the predicted best scores than the measured best "
                      f"(95 % bootstrap). Then the pairs of shapes whose order the runs settle with probability > "
                      f"{SEPARATED}: how many are in the predicted order."))  # fmt: skip
        if not ranking.same_size(task):
            blocks.append(Text(OTHER_SIZES))
        finals = task.scores()
        if finals:
            blocks.append(figures.predicted(f"predicted-{number}", found, task, finals,
                          "Final return against predicted error; a prediction that holds falls to the right. "
                          f"Horizontal: range over probes; vertical: 95 % interval. {command}"))  # fmt: skip
        blocks.append(tables.errors(found, "Predicted error bias² + variance/h relative to the median shape: mean over "
                                    "probes (range over probes)."))  # fmt: skip
    own = tables.gradients(task, "The gradient of a batch of each shape, at checkpoints of its own run, with 95 % "
                           "intervals over environments; advantages unnormalised; bias against λ = 1 without "
                           "truncation.")  # fmt: skip
    if own is not None:
        blocks.append(own)
    mapped = figures.shapes(f"shapes-{number}", task, task.scores(), "What was measured at each shape: final return, "
                            "and by its own probes (means over them) the gradient of its batch. Colours rank the "
                            f"shapes, yellow is best; intervals are in the tables. {command}")  # fmt: skip
    split = figures.terms(f"terms-{number}", task, "The noise of each shape's batch, amid its own run: that of single "
                          "steps and their correlation along time (below zero they cancel), predicted from one long "
                          "rollout; beside their sum, by brute force, that of batches of the very shape. Both terms "
                          f"move with T, for T decides what an advantage is. {command}")  # fmt: skip
    blocks += [each for each in (mapped, split) if each is not None]
    middle = documents[len(documents) // 2]
    if packed := next((each["pictures"] for each in documents if each.get("pictures")), None):
        caption = (
            "Cosines of the gradients of single steps, batch 0 against itself and against independent batches, for two "
            "shapes of one size; lines part environments. Blocks on the diagonal are correlation along time. These are "
            f"exact cosines of one draw, without an interval. {documents[0]['command']}"
        )
        blocks.append(figures.cosines(f"cosines-{number}", [CosineMap.from_dict(each) for each in packed], caption))
    blocks.append(figures.surface(f"surface-{number}", middle, "One probe's forecast for every N and T, of "
                  f"{middle['geometry']['num_envs']}×{middle['geometry']['num_steps']} after update "
                  f"{middle['update']:,}. {middle['command']}"))  # fmt: skip
    return [*blocks, *lost]


def _diagnosis(material: Material) -> list[Block]:
    labels = {
        (run.task, run.group): group.label if len(material.tasks) == 1 else f"{task.label} {group.label}"
        for task in material.tasks
        for group in task.groups
        for run in group.runs
    }
    caption = (
        "Verdicts by the stated test of each run's curve; suspects by measured evidence. "
        f"rollshape diagnose {material.path}"
    )
    return [tables.verdicts(material.diagnoses, labels, caption)]


def _missing(material: Material) -> list[Block]:
    if material.outcome is None:
        ended = [record for record in material.records if record.status not in ("done", "diverged")]
        told = [f"{record.path.name} is {record.status}" for record in ended]
        return [Points(told)] if told else [Text("Every run of the folder has ended.")]
    outcome = material.outcome
    items = [f"Illegal: {labelled(point.point)}. {point.message} {point.fix}" for point in outcome.illegal]
    for trial in outcome.trials:
        result = outcome.results[trial.id]
        if result.state != "done":
            reason = f": {result.reason}" if result.reason else ""
            items.append(f"{result.state.capitalize()}: {trial.id}{reason}")
    if not outcome.expansion.aligned:
        items.append("The rollouts have no common multiple to score at: scores fall on each run's nearest update.")
    return [Points(items)] if items else [Text("Nothing: every point was legal and every trial was done.")]


def _plans(material: Material) -> list[Block]:
    blocks: list[Block] = []
    for task in material.tasks:
        blocks.append(tables.plans(task))
        blocks += [
            Folded(f"Flow of {group.label}", [Picture(diagram.svg(_spec(group.spec).plan()))]) for group in task.groups
        ]
    return blocks


def _spec(values: dict[str, Any]) -> Spec:
    known: dict[str, Any] = {name: values[name] for name in Spec.__dataclass_fields__ if name in values}
    return Spec(**known | {"hidden_sizes": tuple(known["hidden_sizes"])})


def _command(material: Material) -> str:
    return f"rollshape report {material.path}"


def _made(material: Material) -> list[Block]:
    here = machine()
    lines = [f"rollshape report {material.path}"]
    facts = []
    if material.outcome:
        runs = [event for event in material.outcome.store.events() if event["event"] == "run"]
        lines = [*dict.fromkeys(event["command"] for event in runs if event["command"]), *lines]
        facts += [f"Run with {event['engine']} on {event['machine']}, load {event['load']}." for event in runs[-1:]]
        facts.append(f"Seeds: {', '.join(map(str, material.outcome.study.seeds))}.")
        facts.append(f"Scored every {material.outcome.expansion.evaluate_every:,} timesteps on 128 fresh episodes.")
    versions = sorted({f"{name} {number}" for record in material.records for name, number in record.versions.items()})
    facts.append(f"Versions: {', '.join(versions) or 'not recorded'}.")
    facts.append(f"This page was written on {platform.machine()} with {here.cores} cores and "
                 f"{format_bytes(here.memory_bytes)}.")  # fmt: skip
    facts.append(
        "Data of every figure is in it (CSV); every run's metrics.jsonl, run.json and probes are in the folder."
    )
    return [Code("\n".join(lines)), Points(facts), *_trial_commands(material.records)]


def _trial_commands(records: Sequence[Record]) -> list[Block]:
    """One of the runs by hand."""
    path = records[0].path
    return (
        [Text(f"Any run again, compared bit for bit: rollshape reproduce {path}", "small")]
        if RunDirectory(path).exists()
        else []
    )
