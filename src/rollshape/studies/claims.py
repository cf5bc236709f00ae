"""Verdicts on what is claimed, computed from the runs by stated rules.

Two groups are separated when one centre lies above the other with a probability over 1 − 0.05/p (`drawn_centres`), p
the number of pairs that are looked at, so that all of them together are wrong in one study of twenty at most. A claim
that something rises is confirmed when every separated pair rises, refuted when every one falls, and depends when some
do this and some that. It is not settled where no pair is separated. Final returns decide together with areas under the
curves: where one settles nothing the other decides, where they contradict each other it depends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from rollshape.studies.groups import Group, Task
from rollshape.studies.statistics import SEPARATED, Estimate, Floats, centre, drawn_centres, summarised
from rollshape.studies.verdict import FEWEST, judge

Answer = Literal["confirmed", "refuted", "depends", "not settled"]
LITTLE, MUCH = 0.1, 0.25  # share of the climb in which a loss as near to 0 as at the end is a coincidence, or a rule
MEASURES = ("final return", "area under the curve")
RRD = {  # what is claimed of its sizes
    "train_batches": "More train_batches are slower, but better.",
    "rrd_batch_size": "A larger rrd_batch_size, which is more diverse subsequences, is better.",
    "rrd_sample_size": "A larger rrd_sample_size makes returns easier to predict.",
}


@dataclass(frozen=True)
class Claim:
    """What was claimed, the verdict with its reasons in words, and the rule that gave it."""

    claim: str
    answer: Answer
    reasons: list[str]
    rule: str
    numbers: dict[str, Any] = field(default_factory=dict)
    aside: str = ""  # its short name, where it is not what the study was made for

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Pair:
    """Two groups: 1 where the second's centre is separated and above the first's, −1 where it is below, else 0."""

    first: str
    second: str
    sign: int


def pairs(scores: Mapping[str, Floats], labels: Sequence[str]) -> list[Pair]:
    """All pairs, in the order of the labels."""
    known = [label for label in labels if label in scores]
    drawn = drawn_centres([scores[label] for label in known])
    both = list(combinations(range(len(known)), 2))
    level = 1 - (1 - SEPARATED) / max(1, len(both))
    found = []
    for i, j in both:
        sign = int((drawn[j] > drawn[i]).mean() > level) - int((drawn[j] < drawn[i]).mean() > level)
        found.append(Pair(known[i], known[j], sign))
    return found


def rising(scores: Mapping[str, Floats], labels: Sequence[str], wanted: int = 1) -> tuple[Answer, str]:
    """Do scores rise (wanted 1) or fall (−1) along the labels? The answer, and the separated pairs in words."""
    settled = [pair for pair in pairs(scores, labels) if pair.sign]
    if not settled:
        return "not settled", "no two are separated"
    along = [pair for pair in settled if pair.sign == wanted]
    against = [pair for pair in settled if pair.sign == -wanted]
    told = f"{len(along)} of {len(settled)} separated pairs as claimed"
    if against:
        worst = max(against, key=lambda pair: abs(_gap(scores, pair)))
        told += f"; the clearest against it: {worst.first} to {worst.second}, {_gap(scores, worst):+.4g}"
    return ("depends" if along and against else "confirmed" if along else "refuted"), told


def _gap(scores: Mapping[str, Floats], pair: Pair) -> float:
    return float(centre(scores[pair.second]) - centre(scores[pair.first]))


def _both(answers: Sequence[Answer]) -> Answer:
    settled = {answer for answer in answers if answer != "not settled"}
    return settled.pop() if len(settled) == 1 else "depends" if settled else "not settled"


def as_good_as_best(scores: Mapping[str, Floats]) -> tuple[str, list[str]]:
    """(the label with the highest centre, all that are not separated from it, itself among them)."""
    best = max(scores, key=lambda label: float(centre(scores[label])))
    worse = {pair.first if pair.sign > 0 else pair.second for pair in pairs(scores, list(scores))
             if pair.sign and best in (pair.first, pair.second)}  # fmt: skip
    return best, [label for label in scores if label not in worse]


def told(estimate: Estimate) -> str:
    """`412 [380, 440]`; open where the runs do not bound it."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.4g} (one run: no interval)"
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"


def ordered(task: Task, name: str) -> list[Group]:
    """Groups by a field, those that have it as a number."""
    return sorted((g for g in task.groups if isinstance(g.field(name), (int, float))), key=lambda g: g.field(name))


def monotone(claim: str, task: Task, name: str, wanted: int, measures: Sequence[str] = MEASURES) -> Claim:
    """More of a field is better (1) or worse (−1)."""
    groups = ordered(task, name)
    labels = [group.label for group in groups]
    scores = task.scores()
    values = {MEASURES[0]: scores, MEASURES[1]: task.areas()}
    answers = {which: rising(values[which], labels, wanted) for which in measures}
    reasons = [f"By {which}: {words}." for which, (_, words) in answers.items()]
    if scores:
        best, good = as_good_as_best(scores)
        others = [label for label in good if label != best]
        tied = f"; {', '.join(others)} cannot be told from it" if others else "; it is separated from all others"
        reasons.insert(0, f"{best} ends highest, at {told(summarised(scores[best]))}{tied}.")
        first, last = labels[0], labels[-1]
        if first in scores and last in scores and first != last:
            reasons.insert(
                1,
                f"{first}, the least {name}: {told(summarised(scores[first]))}; {last}, the most: "
                f"{told(summarised(scores[last]))}.",
            )
    direction = "rises" if wanted > 0 else "falls"
    return Claim(
        claim, _both([answer for answer, _ in answers.values()]), reasons,
        f"Confirmed if the score {direction} with {name} in every pair of shapes that the runs separate (with "
        f"{SEPARATED:.0%} over all pairs together), refuted if it does so in none of them, depends if in some; by "
        f"{' and by '.join(measures)}.",
        {which: answer for which, (answer, _) in answers.items()},
    )  # fmt: skip


def num_envs(claim: str, task: Task) -> Claim:
    """More environments are worse, and the most of them fail."""
    found = monotone(claim, task, "num_envs", -1)
    most = ordered(task, "num_envs")[-1]
    failed = sum(_verdict(task, run) in ("never learned", "collapsed", "diverged") for run in most.runs)
    fails = failed > len(most.runs) / 2
    answer = found.answer if fails or found.answer != "confirmed" else "depends"
    reason = f"Of the {len(most.runs)} runs of {most.label}, {failed} never learned, collapsed or diverged."
    rule = f"{found.rule} And more than half of the runs with the most environments must have failed."
    return Claim(claim, answer, [*found.reasons, reason], rule, found.numbers | {"failed": failed})


def _verdict(task: Task, run: Any) -> str:
    best = max((float(np.median(runs)) for runs in task.scores().values()), default=None)
    return judge(run.rows, run.status, None, best).verdict


def minibatch(claim: str, task: Task) -> Claim:
    """Minibatches of 32 to 256, and a quarter of the rollout, are as good as the best."""
    scores = task.areas()
    if not scores:
        return _nothing(claim)
    best, good = as_good_as_best(scores)
    inside = [g.label for g in task.groups if 32 <= g.plan["minibatch_size"] <= 256 and g.label in scores]
    quarter = [g.label for g in task.groups if g.plan["num_minibatches"] == 4 and g.label in scores]
    outside = [label for label in scores if label not in inside and label not in quarter]
    fine = [label for label in (*inside, *quarter) if label in good]
    named = list(dict.fromkeys((*inside, *quarter)))
    answer: Answer
    if not any(pair.sign for pair in pairs(scores, list(scores))):
        answer = "not settled"
    elif len(set(fine)) == len(named):
        answer = "confirmed"
    else:
        answer = "depends" if fine else "refuted"
    worse = [label for label in outside if label not in good]
    return Claim(
        claim, answer,
        [f"By area under the curve {best} is best, at {told(summarised(scores[best]))}.",
         f"As good as far as the runs tell: {', '.join(label for label in good if label != best) or 'none'}.",
         f"Of the claimed sizes {len(set(fine))} of {len(named)} are among them; of the {len(outside)} others, "
         f"{len(worse)} are separated and worse."],
        "Confirmed if every minibatch of 32 to 256 samples and the quarter of the rollout cannot be told from the best "
        "by area under the curve (or is it), refuted if none, depends otherwise.",
    )  # fmt: skip


def reset_phase(claim: str, task: Task) -> Claim:
    """More environments do not help with synchronised resets; spreading them mends it."""
    areas = task.areas()
    if not areas:
        return _nothing(claim)
    by = {mode: [g for g in ordered(task, "num_envs") if g.spec["stagger"] == mode] for mode in ("none", "burn-in")}
    helped = [p for p in pairs(areas, [g.label for g in by["none"]]) if p.sign > 0]
    mended = []
    for group in by["none"]:
        other = next((g for g in by["burn-in"] if g.plan["num_envs"] == group.plan["num_envs"]), None)
        if other is not None:
            mended += pairs(areas, [group.label, other.label])
    better, worse = [p for p in mended if p.sign > 0], [p for p in mended if p.sign < 0]
    unmoved = not helped
    if not helped and not better and not worse:
        answer: Answer = "not settled"
    elif unmoved and better and not worse:
        answer = "confirmed"
    else:
        answer = "refuted" if not unmoved and not better else "depends"
    return Claim(
        claim, answer,
        [f"With synchronised resets more environments are separated and better in {len(helped)} pairs"
         + (f" (such as {helped[0].first} to {helped[0].second}, {_gap(areas, helped[0]):+.4g})." if helped else "."),
         f"Burn-in is separated and better at {len(better)} of {len(mended)} numbers of environments, worse at "
         f"{len(worse)}."
         + (f" {better[-1].second}: {told(summarised(areas[better[-1].second]))}; {better[-1].first}: "
            f"{told(summarised(areas[better[-1].first]))}." if better else "")],
        "By area under the curve: confirmed if no pair of synchronised shapes is separated in favour of more "
        "environments and burn-in is separated and better somewhere and worse nowhere; refuted if more environments "
        "help and burn-in does not; depends otherwise.",
    )  # fmt: skip


def delay(claim: str, tasks: Sequence[Task]) -> Claim:
    """T must exceed the delay first; only then do more environments help. The flip is where the best N gives way."""
    answers: list[Answer] = []
    reasons: list[str] = []
    best_envs: dict[int, int] = {}
    for task in sorted(tasks, key=_delay):
        wait, areas = _delay(task), task.areas()
        if not areas:
            continue
        best, good = as_good_as_best(areas)
        shapes = {group.label: group for group in task.groups}
        best_envs[wait] = shapes[best].plan["num_envs"]
        short = [label for label in areas if shapes[label].plan["num_steps"] <= wait]
        shortest_good = [label for label in short if label in good]
        if short:
            settled = any(pair.sign for pair in pairs(areas, list(areas)))
            answers.append("not settled" if not settled else "confirmed" if not shortest_good else
                           "refuted" if best in short else "depends")  # fmt: skip
        told_short = f"; of T ≤ {wait}, {', '.join(shortest_good) or 'none'} keeps up" if short else ""
        reasons.append(f"Delay {wait}: best {best}, {told(summarised(areas[best]))}{told_short}.")
    most = max(best_envs.values(), default=0)
    flip = next((wait for wait in sorted(best_envs) if best_envs[wait] < most), None)
    reasons.append(
        "The best number of environments is the same at every delay." if flip is None else
        f"The best number of environments falls from {most:,} to {best_envs[flip]:,} at a delay of {flip}."
    )  # fmt: skip
    return Claim(
        claim, _both(answers), reasons,
        "By area under the curve, for every delay for which some shapes have T ≤ delay: confirmed if all of these are "
        "separated from the best and worse, refuted if the best is one of them, depends otherwise; over all delays "
        "the common answer, or depends.",
        {"flip": flip, "best_num_envs": best_envs},
    )  # fmt: skip


def _delay(task: Task) -> int:
    return int((task.groups[0].spec.get("env_kwargs") or {}).get("delay", 0))


def rrd(task: Task) -> list[Claim]:
    """One claim for each of RRD's sizes, along the points in which the other two are as in most of the study."""
    usual = {name: Counter(group.field(name) for group in task.groups).most_common(1)[0][0] for name in RRD}
    found = []
    for name, sentence in RRD.items():
        others = [other for other in RRD if other != name]
        chosen = [g for g in task.groups if all(g.field(other) == usual[other] for other in others)]
        along = replace(task, groups=tuple(replace(g, label=f"{name} {g.field(name)}") for g in chosen))
        judged = monotone(sentence, along, name, 1)
        groups = ordered(along, name)
        if name == "rrd_sample_size":  # what is claimed of it is not the return
            loss = {group.label: _late(group, "reward_loss") for group in groups}
            answer, words = rising({label: values for label, values in loss.items() if len(values)},
                                   [group.label for group in groups], -1)  # fmt: skip
            judged = Claim(
                sentence, answer, [f"By the reward network's loss: {words}.", *judged.reasons],
                "Confirmed if the loss over the last fifth of the run (median) falls with rrd_sample_size in every "
                "pair of points that the runs separate, refuted if in none, depends if in some.",
                judged.numbers | {"reward_loss": answer},
            )  # fmt: skip
        told_each = ", ".join(
            f"{group.field(name)}: correlation {np.mean(_late(group, 'reward_correlation')):.2f}, "
            f"{np.mean([run.summary['sps'] for run in group.runs if run.summary.get('sps')] or [np.nan]):,.0f} steps/s"
            for group in groups
            if len(_late(group, "reward_correlation"))
        )
        found.append(replace(judged, reasons=[*judged.reasons, f"With the true rewards, and speed: {told_each}."]))
    return found


def _late(group: Group, name: str) -> Floats:
    """A metric over the last fifth of each run, its median."""
    values = [run.median(name, slice(4 * len(run.rows) // 5, None)) for run in group.runs if run.rows]
    return np.array([value for value in values if value is not None], np.float64)


def policy_loss(tasks: Sequence[Task]) -> Claim:
    """“policy_loss near 0 means converged”: was it as near to 0 while the run had most of its way before it?

    Near is what it is over the last fifth (median). The climb: rows that score less than halfway from start to best.
    """
    claim, aside = "A policy_loss near 0 means that training has converged.", "policy_loss near 0 means converged"
    shares = [share for task in tasks for group in task.groups for run in group.runs if (share := _near(task, run))]
    rule = (
        "For every run: of the rows in which it scores less than halfway from its start to its best, the share whose "
        "|policy_loss| is at most the median of the last fifth. A sign of convergence would have next to none of them. "
        f"Confirmed if the 95 % interval of the mean share lies below {LITTLE:.0%}, refuted if above {MUCH:.0%}, "
        "depends otherwise; interval over runs."
    )
    if len(shares) < 2:
        return Claim(claim, "not settled", ["Fewer than two runs climbed slowly enough to look at."], rule, aside=aside)
    found = summarised([value for value, _ in shares])
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    answer: Answer = "confirmed" if high < LITTLE else "refuted" if low > MUCH else "depends"
    return Claim(
        claim, answer,
        [f"While {len(shares)} runs had more than half of their way before them, policy_loss was as near to 0 as at "
         f"their end in {found.value:.0%} [{low:.0%}, {high:.0%}] of the rows."],
        rule, {"share": found.to_dict(), "runs": len(shares)}, aside,
    )  # fmt: skip


def _near(task: Task, run: Any) -> tuple[float, int] | None:
    """(share, rows) of one run; None where it did not climb or has fewer than three rows on the way."""
    rows = [row for row in run.rows if row.get(task.metric) is not None and row.get("policy_loss") is not None]
    if len(rows) < FEWEST:
        return None
    scores, losses = np.array([row[task.metric] for row in rows]), np.abs([row["policy_loss"] for row in rows])
    noise = float(np.std(np.diff(scores)) / 2**0.5)
    if scores.max() - scores[0] <= 4 * noise:
        return None
    climb = scores < (scores[0] + scores.max()) / 2
    if climb.sum() < 3:
        return None
    end = float(np.median(losses[-max(2, len(rows) // 5) :]))
    return float((losses[climb] <= end).mean()), int(climb.sum())


def _nothing(claim: str) -> Claim:
    return Claim(claim, "not settled", ["No run has ended yet."], "Runs that have ended are compared.")


def _undirected(claim: str, task: Task) -> Claim:
    """A claim that no rule is written for: what the runs separate, and no verdict."""
    scores = task.scores()
    if not scores:
        return _nothing(claim)
    best, good = as_good_as_best(scores)
    others = ", ".join(label for label in good if label != best) or "none"
    return Claim(
        claim, "not settled",
        [f"{best} ends highest, at {told(summarised(scores[best]))}; not separated from it: {others}."],
        "There is no rule for this claim: the runs are compared, and the verdict is left to the reader.",
    )  # fmt: skip


RULES: dict[str, Callable[[str, Task], Claim]] = {
    "tradeoff": lambda claim, task: monotone(claim, task, "num_envs", 1),
    "demo": lambda claim, task: monotone(claim, task, "num_envs", 1),  # the same, small
    "num-envs": num_envs,
    "num-steps": lambda claim, task: monotone(claim, task, "num_steps", -1),
    # areas reach to the shortest budget only, and up to there more budget has changed nothing
    "total-timesteps": lambda claim, task: monotone(claim, task, "total_timesteps", 1, MEASURES[:1]),
    "minibatch": minibatch,
    "reset-phase": reset_phase,
}


def verdicts(name: str, claim: str, tasks: Sequence[Task]) -> list[Claim]:
    """The study's own claim first (one for each task, for scores of different tasks do not compare), then that on
    policy_loss."""
    if name == "delay":
        own = [delay(claim, tasks)]
    elif name == "rrd":
        return [each for task in tasks for each in rrd(task)]  # there is no policy_loss of PPO's kind
    else:
        rule = RULES.get(name, _undirected)
        own = [rule(claim if len(tasks) == 1 else f"{claim} ({task.label})".strip(), task) for task in tasks]
    return [*own, policy_loss(tasks)]
