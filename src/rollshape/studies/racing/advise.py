"""`rollshape.advise`: race shapes and recommend one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from rollshape.errors import RequestError
from rollshape.files import output_directory, write_bytes
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.calls import check_arguments
from rollshape.geometry.dialects.translate import translate
from rollshape.geometry.plan import Plan
from rollshape.geometry.values import COUNT, POSITIVE
from rollshape.studies.engines import EngineName
from rollshape.studies.events import OnEvent
from rollshape.studies.racing.advice import Advice, advise_from
from rollshape.studies.racing.candidates import (
    Variation,
    candidate_points,
    check_trainable,
    parse_shapes,
    planned_shapes,
)
from rollshape.studies.racing.rule import POINTS, check_budget
from rollshape.studies.racing.settings import DEFAULT_BUDGET, Objective, RaceSettings
from rollshape.studies.racing.why import explain
from rollshape.studies.run import StudyState, run_study
from rollshape.studies.study import Study
from rollshape.studies.study_file import SET_BY_STUDY
from rollshape.training.spec import Spec, checked_spec

DEFAULT_SEEDS = 3
MAX_SEEDS = 100
ADVICE_FILE = "advice.json"
RACED = ("num_envs", "num_steps", "rollout_size")
TRANSLATED = (
    "algo", "num_envs", "num_steps", "minibatch_size", "num_epochs", "total_timesteps", "learning_rate", "gamma",
    "gae_lambda", "clip_range", "entropy_coef", "value_coef", "max_grad_norm", "target_kl",
)  # fmt: skip


@dataclass(frozen=True)
class Recommendation:
    """The answer of `advise`: the best shape, the ranking, its cost, why, and a config in the user's dialect."""

    advice: Advice
    why: list[str]
    config: dict[str, Any] | None
    not_preserved: list[str]  # of the config, by the dialect
    out: Path

    @property
    def best(self) -> dict[str, Any]:
        """The sizes and the learning rate to use."""
        candidate = self.advice.best.candidate
        names = ("num_envs", "num_steps", "minibatch_size", "num_epochs")
        sizes = {name: getattr(candidate.plan, name) for name in names}
        return {**sizes, "learning_rate": candidate.spec.learning_rate}

    def to_dict(self) -> dict[str, Any]:
        advice = self.advice
        return {
            "best": self.best,
            "ranking": [ranked.to_dict() for ranked in advice.ranking],
            "cost": {"timesteps": advice.timesteps, "share": advice.share},
            "why": self.why,
            "config": self.config,
            "not_preserved": self.not_preserved,
            "out": str(self.out),
        }


@check_arguments
def advise(
    env: str,
    total_timesteps: Annotated[int, COUNT],
    *,
    shapes: Sequence[str] | None = None,
    max_envs: Annotated[int | None, COUNT] = None,
    budget: Annotated[float, POSITIVE] = DEFAULT_BUDGET,
    seeds: Annotated[int, COUNT] = DEFAULT_SEEDS,
    objective: Objective = "return",
    vary: Sequence[str] = (),
    to: str | None = None,
    out: str | Path | None = None,
    engine: EngineName = "local",
    jobs: Annotated[int | None, COUNT] = None,
    address: str | None = None,
    command: str = "",
    on_start: Callable[[StudyState], None] | None = None,
    on_event: OnEvent | None = None,
    **settings: Any,
) -> Recommendation:
    """Race shapes and recommend one: `advise("Acrobot-v1", 1_000_000, to="sb3").best`.

    Args:
        env: the environment's id.
        total_timesteps: the budget of the run that the advice is for.
        shapes: candidates as `64x32`; by default planned ones, up to `max_envs` environments.
        max_envs: most environments of a planned candidate.
        budget: what the race may cost, as a share of training every candidate with every seed to the end.
        seeds: per candidate, at most.
        objective: compare by return at the budget, by return after equal seconds, or by area under the curve.
        vary: also race other minibatch sizes or learning rates of each shape.
        to: dialect of the config that is returned.
        out: folder of the study; by default studies/advise-ENV. The same call resumes a race that was stopped.
        engine: where trials run, as in a study; so are `jobs` and `address`.
        command: the command line, for the journal.
        on_start: called before the first trial; `on_event` with everything that happens after it.
        settings: further fields of a Spec, the same for all candidates.
    """
    study = new_race(
        env,
        total_timesteps,
        shapes=shapes,
        max_envs=max_envs,
        settings=RaceSettings(budget, objective),
        seeds=seeds,
        vary=vary,
        fields=settings,
    )
    if to is not None:
        translate({"num_envs": 8, "num_steps": 32, "total_timesteps": 10_000}, "rollshape", to)  # refuses unknown names
    folder = output_directory(out) if out is not None else default_folder(env)
    state = run_study(
        study,
        folder,
        engine=engine,
        jobs=jobs,
        address=address,
        command=command,
        on_start=on_start,
        on_event=on_event,
    )
    return recommend(state, to)


def default_folder(env: str) -> Path:
    return Path("studies") / f"advise-{env.replace(':', '-').replace('/', '-')}"


def new_race(
    env: str,
    total_timesteps: int,
    *,
    shapes: Sequence[str] | None,
    max_envs: int | None,
    settings: RaceSettings,
    seeds: int,
    vary: Sequence[str],
    fields: dict[str, Any],
) -> Study:
    """Return the study of a race; a RequestError if there is nothing to race."""
    _check_request(seeds, shapes, max_envs, vary, fields)
    spec = checked_spec(Spec(), env=env, total_timesteps=total_timesteps, **fields)
    if RULES[spec.algo].uses_replay:
        raise RequestError(
            "choice",
            f"{spec.algo} samples from a replay buffer: its rollout has no shape to race.",
            "Use --algo ppo, ppo-ewma, a2c or reinforce.",
        )
    chosen = parse_shapes(shapes) if shapes else planned_shapes(spec, max_envs)
    points = candidate_points(spec, chosen, vary)
    check_trainable(spec, points)
    check_budget(settings.budget, len(points), seeds, first_part=settings.objective == "seconds")
    return Study(
        name="advise",
        title=f"Which shape for {env} with {total_timesteps:,} timesteps?",
        claim="",
        fixed={"env": env, "total_timesteps": total_timesteps, **fields},
        points=points,
        seeds=tuple(range(seeds)),
        evaluate_every=max(1, total_timesteps // POINTS),
        race=settings,
    )


def _check_request(
    seeds: int,
    shapes: Sequence[str] | None,
    max_envs: int | None,
    vary: Sequence[str],
    fields: dict[str, Any],
) -> None:
    for name in fields:
        if name in SET_BY_STUDY or name in RACED:
            fix = SET_BY_STUDY.get(name, "Use --shapes, such as --shapes 4x32 64x128.")
            raise RequestError("contradiction", f"{name} is set by the race itself.", fix)
    for name in vary:
        if name not in get_args(Variation):
            raise RequestError("choice", f"Cannot vary {name!r}.", f"Choose from {', '.join(get_args(Variation))}.")
    if shapes is not None and max_envs is not None:
        raise RequestError("contradiction", "--max-envs limits planned shapes, but --shapes names them.", "Use one.")
    if seeds > MAX_SEEDS:
        raise RequestError("number-range", f"seeds {seeds:,} is too many.", f"Use at most {MAX_SEEDS}.")


def recommend(state: StudyState, to: str | None = None) -> Recommendation:
    """Return the recommendation of a race that is over, and write it to its folder."""
    race = state.race
    if race is None or race.next_trials():
        raise RequestError(
            "study", f"{state.store.path} holds no race that is over.", "Run the same `rollshape advise` to resume it."
        )
    advice = advise_from(race)
    config, not_preserved = (
        (None, []) if to is None else dialect_config(advice.best.candidate.spec, advice.best.candidate.plan, to)
    )
    recommendation = Recommendation(advice, explain(advice, race), config, not_preserved, state.store.path)
    document = json.dumps(recommendation.to_dict(), indent=2, allow_nan=False)
    write_bytes(state.store.path / ADVICE_FILE, document.encode())
    return recommendation


def dialect_config(spec: Spec, plan: Plan, to: str) -> tuple[dict[str, Any], list[str]]:
    """Return (spec and plan as a config of another library, what that library does not preserve)."""
    settings = spec.to_dict()
    sizes = {name: getattr(plan, name) for name in ("num_envs", "num_steps", "minibatch_size", "num_epochs")}
    values = {name: settings[name] for name in TRANSLATED if settings.get(name) is not None} | sizes
    result = translate(values, "rollshape", to)
    return dict(result.config), list(result.not_preserved)
