"""Write the report of a study or of a folder of runs: report.html, report.md and PNG figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollshape.errors import RequestError
from rollshape.files import disk_errors, write_bytes
from rollshape.reports.advice_section import advice_sections, recommend_in_sentences, recommended_commands
from rollshape.reports.document import Document, Section
from rollshape.reports.html import to_html
from rollshape.reports.markdown import to_markdown
from rollshape.reports.report_data import ReportData, read_report_data
from rollshape.reports.sections import (
    claim_blocks,
    diagnosis_blocks,
    missing_blocks,
    plan_blocks,
    provenance_blocks,
    task_sections,
)
from rollshape.reports.summary import own_claims, summarize_claims, write_headline
from rollshape.studies.records import RunRecord
from rollshape.studies.rules import ClaimVerdict
from rollshape.studies.rules.base import Answer

FIGURES_FOLDER = "report"  # of the PNG files beside report.md
RETRY = "write the report again"


@dataclass(frozen=True)
class WrittenReport:
    """Where a report was written, and its conclusion."""

    html: Path
    markdown: Path
    title: str
    headline: str
    claims: list[ClaimVerdict]
    summary: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "html": str(self.html),
            "markdown": str(self.markdown),
            "title": self.title,
            "verdict": self.claims[0].answer,
            "scope": self.claims[0].scope,
            "headline": self.headline,
            "summary": self.summary,
            "claims": [claim.to_dict() for claim in self.claims],
        }


def write_report(path: Path, records: list[RunRecord] | None = None) -> WrittenReport:
    """Write the report into a study's folder, a folder of runs or a run directory.

    `records` are the runs, if they were read already; those of other libraries are not in run directories.
    """
    data = read_report_data(path, records)
    document = build_document(data)
    folder = path / FIGURES_FOLDER
    if folder.is_symlink():
        raise RequestError("file", f"{folder} is a link; figures are not written through it.", "Remove the link.")
    with disk_errors(folder, RETRY):
        folder.mkdir(exist_ok=True)
    for figure in document.figures():
        write_bytes(folder / f"{figure.name}.png", figure.png, RETRY)
    html, markdown = path / "report.html", path / "report.md"
    for file, text in ((html, to_html(document)), (markdown, to_markdown(document, FIGURES_FOLDER))):
        write_bytes(file, text.encode(errors="replace"), RETRY)  # a path need not be UTF-8
    return WrittenReport(
        html,
        markdown,
        document.title,
        document.headline,
        data.claims,
        list(document.recommendation) + list(document.summary),
    )


def build_document(data: ReportData) -> Document:
    """Compose the report: the conclusion first, then what it rests on."""
    sections = [
        *advice_sections(data),
        *([Section("Claim and verdict", claim_blocks(data))] if has_claim(data) else []),
        *(section for number, task in enumerate(data.tasks) for section in task_sections(data, task, number)),
        Section("Run outcomes and diagnosis", diagnosis_blocks(data)),
        Section("Missing runs", missing_blocks(data)),
        Section("Shapes", plan_blocks(data)),
        Section("How this report was made", provenance_blocks(data)),
    ]
    title = data.state.study.title if data.state else f"Runs in {data.path.resolve().name}"
    recommendation, commands = recommend_in_sentences(data), recommended_commands(data)
    if recommendation and not has_claim(data):  # the recommendation is what the report is about
        tone: Answer = "confirmed" if commands else "not settled"
        return Document(title, tone, recommendation[0], recommendation[1:], sections, (), commands)
    answer, headline, summary = own_claims(data)[0].answer, write_headline(data), summarize_claims(data)
    return Document(title, answer, headline, summary, sections, recommendation, commands)


def has_claim(data: ReportData) -> bool:
    """Return whether the report judges a claim; a race asks a question instead."""
    return data.state is None or data.state.study.race is None
