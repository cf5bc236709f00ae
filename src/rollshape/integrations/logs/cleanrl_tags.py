"""CleanRL's PPO scripts: tags of `SummaryWriter`, and the hyperparameters in a text table of the log."""

from __future__ import annotations

import ast
import re
from typing import Any, ClassVar

from rollshape.integrations.logs.library import Facts, LibraryLog, Tag, ceil_steps, check_multiples, tag
from rollshape.integrations.logs.series import LogFile

_TABLE = ("hyperparameters", "hyperparameters/text_summary")
_ROW = re.compile(r"^\|([^|]+)\|(.*)\|\s*$", re.MULTILINE)
_EVALUATION = "eval/episodic_return"


class CleanrlLog(LibraryLog):
    name = "cleanrl"
    version = "2.0.0b1"
    axis = "environment steps (`global_step`)"
    dialects: ClassVar[tuple[str, ...]] = ("cleanrl", "cleanrl_multigpu", "maniskill")
    marks: ClassVar[tuple[str, ...]] = (
        "charts/episodic_return",
        "losses/old_approx_kl",
        "losses/clipfrac",
        "charts/SPS",
    )
    foreign: ClassVar[tuple[str, ...]] = (
        "losses/td_loss", "losses/qf1_loss", "losses/qf_loss", "losses/actor_loss", "losses/aux/kl_loss",
    )  # fmt: skip
    window = "episodes that ended in the interval, as far as the script logs them (older scripts log one per step)"
    tags: ClassVar[tuple[Tag, ...]] = (
        tag("charts/episodic_return", "episodic_return", "return of one episode", when="episode"),
        tag("charts/episodic_length", "episodic_length", "length of one episode", when="episode"),
        tag("charts/learning_rate", "learning_rate", "in the update"),
        tag("losses/value_loss", "value_loss", "½·mean((V − R)²) of the last minibatch (clipped unless `clip_vloss` is "
            "false)", factor=2.0),
        tag("losses/policy_loss", None, "clipped surrogate loss of the last minibatch: ours is the mean over the "
            "gradient steps, from which it differs systematically"),
        tag("losses/entropy", "entropy", "mean entropy of the last minibatch"),
        tag("losses/approx_kl", "approx_kl_epochs", "mean((r − 1) − log r) of the last minibatch of the last epoch",
            last_epoch=True),
        tag("losses/old_approx_kl", None, "mean(−log r) of the last minibatch"),
        tag("losses/clipfrac", "clip_fraction", "mean over the gradient steps"),
        tag("losses/explained_variance", "explained_variance", "of the rollout's values"),
        tag("charts/SPS", None, "environment steps per second since the start, not of the interval"),
        tag(_EVALUATION, None, "return of an episode after training, at the number of the episode: their mean is "
            "`final_return`"),
    )  # fmt: skip

    def locate(self, name: str, entry: Tag, step: float, facts: Facts) -> int:  # noqa: ARG002
        return ceil_steps(step, facts.plan.rollout_size)

    def axis_of(self, name: str) -> str:
        return _EVALUATION if name == _EVALUATION else ""

    def check(self, scalars: LogFile, facts: Facts) -> None:
        what = f"{facts.plan.num_envs} × {facts.plan.num_steps}"
        for name in ("losses/value_loss", "charts/SPS"):
            check_multiples(scalars, name, facts.plan.rollout_size, what)

    def read_config(self, log: LogFile) -> dict[str, Any]:
        text = next((log.texts[name] for name in _TABLE if name in log.texts), "")
        values = {name.strip(): _literal(value.strip()) for name, value in _ROW.findall(text)}
        for word in ("param", "-"):
            values.pop(word, None)
        return values or super().read_config(log)

    def final_scores(self, log: LogFile) -> list[float]:
        return list(log.scalars[_EVALUATION].values) if _EVALUATION in log.scalars else []


def _literal(text: str) -> Any:
    """Return a value as `str` wrote it: a number, a bool, None, a list of those, or else text."""
    if len(text) > 200:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text
