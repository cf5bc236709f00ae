"""Claims of the planner's rules and of the literature: what is claimed, by whom, and which rules it concerns.

What was measured about them is in claim_results.json. A claim without a record is not tested and says why.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rollshape.geometry.rules.evidence import NOT_TESTED, ClaimResult, load_results


@dataclass(frozen=True)
class Claim:
    """A sentence that can be confirmed or refuted, its source, and the rules of the planner that rest on it."""

    id: str
    sentence: str
    source: str
    rules: tuple[str, ...] = ()
    untested: str = ""  # why there is no record

    @property
    def results(self) -> tuple[ClaimResult, ...]:
        return tuple(result for result in load_results() if result.claim == self.id)

    def summary(self) -> str:
        """Return `refuted on CartPole-v1; mixed on Acrobot-v1`, tasks with one verdict together."""
        tasks: dict[str, list[str]] = {}
        for result in self.results:
            tasks.setdefault(result.verdict, []).append(result.task)
        verdicts = [f"{verdict} on {', '.join(dict.fromkeys(names))}" for verdict, names in tasks.items()]
        return "; ".join(verdicts) or f"{NOT_TESTED}: {self.untested}"

    def lines(self) -> list[str]:
        """Return the claim with its results as lines of text: verdict, scope, effects, then the commands."""
        lines = [f"“{self.sentence}” ({self.source})"]
        if not self.results:
            return [*lines, f"  {NOT_TESTED}: {self.untested}"]
        for result in self.results:
            lines.append(f"  {result.verdict} on {result.scope}")
            lines += [f"    {effect}" for effect in result.effects]
        commands = dict.fromkeys(result.command for result in self.results)
        return [*lines, "  commands:", *(f"    {command}" for command in commands)]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"summary": self.summary(), "results": [result.to_dict() for result in self.results]}


_CLAIMS = (
    Claim(
        "more-envs",
        "At a fixed rollout size, more environments and fewer steps are better, because steps of one environment are "
        "correlated.",
        "common advice for parallel environments",
        ("minibatch-envs", "edge-weight"),
    ),
    Claim(
        "few-updates",
        "A budget of fewer than 100 updates is too small.",
        "the planner's rule few-updates",
        ("few-updates",),
    ),
    Claim(
        "more-envs-fail",
        "More environments with the same number of steps make the result worse, and 2,048 fail.",
        "Stable-Baselines3 issues 1625, 766 and 660",
        ("few-updates",),
    ),
    Claim(
        "short-rollouts",
        "Short rollouts learn slightly better because updates are more frequent; long ones are smoother, but not "
        "better.",
        "common advice",
        ("few-updates", "edge-weight"),
    ),
    Claim(
        "25-steps",
        "With fewer than about 25 steps per rollout PPO learns worse.",
        "Rudin et al. 2021, on legged robots",
        ("edge-weight",),
    ),
    Claim(
        "steps-exceed-delay",
        "With delayed rewards, num_steps must exceed the delay; only then do more environments help.",
        "common advice",
        ("edge-weight",),
    ),
    Claim("more-timesteps", "More timesteps give a better result.", "common advice"),
    Claim(
        "continuous-samples",
        "Continuous control needs 2,000 to 10,000 samples per update.",
        "the planner's rule continuous-samples; defaults of SB3, CleanRL and Dopamine",
        ("continuous-samples",),
    ),
    Claim(
        "minibatch-range",
        "Minibatches of 32 to 256 samples, and a quarter of the rollout, are the best sizes.",
        "rule of thumb from supervised learning",
        ("minibatch-range", "minibatches-per-epoch"),
    ),
    Claim(
        "quarter",
        "A quarter of the rollout is a good minibatch size.",
        "the default of CleanRL, and of the planner for small rollouts",
        ("minibatches-per-epoch", "minibatch-range"),
    ),
    Claim(
        "sqrt-learning-rate",
        "For a minibatch c times as large, multiply Adam's learning rate by √c.",
        "Hilton et al. 2021; Malladi et al. 2022",
        ("lr-minibatch",),
    ),
    Claim(
        "envs-only",
        "With another number of environments, changing num_envs only is as good as any other policy.",
        "common practice; Beukman et al. 2026 keep the minibatch size and the learning rate",
        ("lr-minibatch", "few-updates"),
    ),
    Claim(
        "invariance",
        "With PPO-EWMA and its adjustments, learning curves do not depend on the rollout size; PPO's do.",
        "Hilton et al. 2021",
        ("lr-minibatch",),
    ),
    Claim(
        "kl-adaptive",
        "A KL-adaptive learning rate needs minibatches of 16,384 samples or more.",
        "documentation of rl_games; tested here with smaller minibatches only. The correction for several pairs was "
        "added when CartPole's runs were known: with pairs tested one by one, its verdict is mixed",
        ("lr-minibatch",),
    ),
    Claim(
        "epochs",
        "More epochs on the same rollout add waste, not signal.",
        "Mustafaoglu et al. 2026 (CAPO), about the direction of the update; tested here by the return only. The "
        "contrast of 16 and 4 epochs was added when CartPole's runs were known; it does not affect a verdict",
        ("minibatches-per-epoch",),
    ),
    Claim(
        "synchronized-resets",
        "With synchronized resets and short rollouts more environments do not help; staggering the resets fixes this.",
        "“Staggered Environment Resets”, NeurIPS 2025",
        ("episode-length",),
    ),
    Claim("policy-loss", "A policy_loss near 0 means that training has converged.", "common belief"),
    Claim(
        "baselines",
        "For REINFORCE, rewards-to-go and baselines are better than larger rollouts.",
        "the planner's rule reinforce-samples",
        ("reinforce-samples",),
    ),
    Claim(
        "reinforce-samples",
        "REINFORCE needs at least 1,000 samples per update.",
        "the planner's rule reinforce-samples",
        ("reinforce-samples",),
        "all runs of REINFORCE collect 1,024 samples or more per update.",
    ),
    Claim(
        "action-dim",
        "A minibatch needs at least 10 samples per action dimension.",
        "the planner's rule minibatch-action-dim",
        ("minibatch-action-dim",),
        "no study varies the minibatch size on a task with many action dimensions.",
    ),
    Claim(
        "shuffle-transitions",
        "Minibatches of single transitions from several environments learn better than those of few environments.",
        "Andrychowicz et al. 2020",
        ("minibatch-envs",),
        "Rollshape always shuffles single transitions, so there is nothing to compare with.",
    ),
    Claim(
        "envs-cores",
        "More than about four environments per core do not increase steps/s.",
        "the planner's rule envs-cores; openai/baselines issue 1050",
        ("envs-cores",),
        "it needs a machine with more than the two cores that the results were measured on.",
    ),
    Claim(
        "rrd",
        "With episodic rewards, RRD ends higher than SAC.",
        "Ren et al. 2022",
    ),
    Claim("rrd-train-batches", "More train_batches are slower, but better.", "advice for RRD"),
    Claim(
        "rrd-batch-size",
        "A larger rrd_batch_size, which gives more diverse subsequences, is better.",
        "advice for RRD",
    ),
    Claim(
        "rrd-sample-size",
        "A larger rrd_sample_size makes returns easier to predict.",
        "Ren et al. 2022",
        ("rrd-sample-length",),
    ),
)
CLAIMS = {claim.id: claim for claim in _CLAIMS}

# Findings that follow from arithmetic or from what a library does; there is nothing to measure.
EXACT_RULES = frozenset({
    "budget-rounding", "awkward-rollout", "remainder", "rrd-warm-up", "memory-share", "world-size", "num-agents",
    "recurrent", "completion-split", "group-size", "split-groups", "stale-completions",
})  # fmt: skip


def claims_about(rule: str) -> list[Claim]:
    """Return the claims that a rule of the planner rests on."""
    return [claim for claim in CLAIMS.values() if rule in claim.rules]
