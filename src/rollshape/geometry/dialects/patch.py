"""Making the sizes in the text of a config valid: the new text, and the difference to the old one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollshape.geometry.dialects.comments import review_comments
from rollshape.geometry.dialects.fit import Fit, fit
from rollshape.geometry.dialects.sources.source import ConfigSource, Edit


@dataclass(frozen=True)
class Patched:
    """The result of patching a config: the text with valid sizes, and what to tell about it."""

    fit: Fit
    edits: tuple[Edit, ...]
    text: str
    diff: str
    comments: tuple[str, ...]  # that may be untrue now
    notes: tuple[str, ...]

    def to_dict(self, *, is_written: bool) -> dict[str, Any]:
        """Return the document of `rollshape patch --json`."""
        return {
            "changes": {".".join(change.path): change.value for change in self.edits},
            "diff": self.diff,
            "written": is_written,
            "plan": self.fit.plan.to_dict(),
            "reason": self.fit.reason,
            "learning_rate": self.fit.learning_rate_note(),
            "comments": list(self.comments),
            "notes": list(self.notes),
        }


def patch_source(source: ConfigSource, dialect: str, facts: Mapping[str, Any]) -> Patched:
    """Make a config valid. `facts` are what its run has and the config need not contain, as `fit` takes them."""
    result = fit(source.values, dialect, key=source.key, file=source.name, **facts)
    flags = [edit for edit in result.edits if edit.path in source.kept and edit.value == facts.get("num_envs")]
    edits = tuple(edit for edit in result.edits if edit not in flags)
    text, comments = review_comments(source.text, source.edit(edits) if edits else source.text, source.values, edits)
    notes = (*result.notes, *source.notes, *(_kept(edit, source.kept[edit.path]) for edit in flags))
    return Patched(result, edits, text, unified_diff(source.text, text, source.name, "patched"), comments, notes)


def unified_diff(before: str, after: str, name: str, what: str) -> str:
    """Return the difference of two texts of a file as a unified diff; empty if they are equal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{name} ({what})", lineterm="")
    return "\n".join(lines)


def _kept(change: Edit, reference: str) -> str:
    return f"{'.'.join(change.path)} stays {reference}: start the training with {change.value} environments"
