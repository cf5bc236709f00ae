"""`rollshape train`: train a policy at any shape, into a run directory that every other command reads."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from rollshape.cli import FAILED, INTERRUPTED
from rollshape.cli.device_flags import DeviceArgs, refuse_with_seeds, use_devices
from rollshape.cli.env_flags import EnvArgs, calling_envs
from rollshape.cli.flags import given_flags
from rollshape.errors import RequestError
from rollshape.files import output_directory
from rollshape.geometry.fields import new_record
from rollshape.geometry.values import Range
from rollshape.training.spec import MOST_UPDATES, Spec

KEPT = Range(1, MOST_UPDATES)
SEEDS = Range(2, 1_000)

# How a final score ended, if not by its number of episodes.
_STOPS = {"interval": " (the interval is narrow)", "steps": " (step budget used up)"}
OPTIONS = ("out", "resume", "track", "keep_checkpoints", "env_timeout", "isolate_env")  # of a run, not of its spec


@dataclass(frozen=True, kw_only=True)
class TrainArgs(Spec, DeviceArgs, EnvArgs):
    """Train a policy. Sizes that are not given are planned (`rollshape plan` shows how)."""

    out: Annotated[
        str | None, "run directory (default: runs/ENV_ALGO_NxT_seedS); with --num-seeds, a folder for seed0, seed1, …"
    ] = None
    num_seeds: Annotated[
        int | None, "train this many seeds from --seed on, one process per core (with --num-shards 1 by default)", SEEDS
    ] = None
    config: Annotated[
        str | None, "train what a config of another library says (see --from); other flags override it"
    ] = None
    from_: Annotated[str | None, "dialect of --config; `rollshape dialects` lists them"] = None
    key: Annotated[str | None, "level of a nested --config file, for example CartPole-v1"] = None
    preset: Annotated[bool, "use tuned settings for this environment; other flags override them"] = False
    resume: Annotated[bool, "continue a run that was stopped or killed"] = False
    track: Annotated[tuple[Literal["tensorboard", "wandb"], ...], "further places for the metrics"] = ()
    keep_checkpoints: Annotated[
        int | None, "number of evenly spaced checkpoints to keep (plus the initial one)", KEPT
    ] = None


def run(argv: Sequence[str]) -> int:
    given = given_flags(TrainArgs, "train", argv)
    args = new_record(TrainArgs, TrainArgs(**given), {})
    if args.out is not None:
        output_directory(args.out)
    spec = Spec(**{field.name: getattr(args, field.name) for field in fields(Spec)})
    if args.config is not None or args.from_ is not None:
        spec = _spec_of_config(spec, args, given)
    if args.preset:
        from rollshape.training.presets import with_preset

        spec, preset = with_preset(spec)
        missing = f" (without {preset.not_kept})" if preset.not_kept else ""
        print(f"preset from {preset.source}{missing}", file=sys.stderr)
    if args.num_seeds is not None:
        return _train_seeds(spec, args.num_seeds, args)
    is_reporting = use_devices(args)
    from rollshape.training.run import train

    options: dict[str, Any] = {name: getattr(args, name) for name in OPTIONS}
    if args.json or not is_reporting:
        from rollshape.cli.output import print_json

        with calling_envs(as_json=True):
            result = train(spec, on_note=_print_note, **options)
        if is_reporting:
            print_json(result.summary)
        return _exit_code(result)
    from rollshape.cli.output import show_plan
    from rollshape.cli.progress import ScoreLine, progress_bar

    bar = progress_bar()  # starts when there is a plan: an error before is the only thing on the screen
    task = bar.add_task("compiling", total=None, unit="updates", status="")

    def on_plan(plan: Any) -> None:
        show_plan(plan)
        bar.update(task, total=plan.num_updates)
        bar.start()

    def on_row(row: dict[str, Any], _: Any) -> None:
        score = "–" if row["episodic_return"] is None else f"{row['episodic_return']:.1f}"
        status = f"return {score}  {row['sps']:,} steps/s"
        bar.update(task, completed=row["update"], description="training", status=status)

    try:
        on_score = ScoreLine(bar).on_score
        result = train(spec, on_plan=on_plan, on_row=on_row, on_score=on_score, on_note=_print_note, **options)
    finally:
        if bar.live.is_started:
            bar.stop()
    summary = result.summary
    if result.final_return is not None:
        why = _STOPS.get(summary.get("final_stopped_by", "episodes"), "")
        speed = f", {summary['sps']:,} steps/s" if summary["sps"] else ""
        print(f"final return {result.final_return:.1f} ± {summary['final_return_ci']:.1f} over "
              f"{summary['final_episodes']} fresh episodes{why}{speed}")  # fmt: skip
    print(f"{result.status}: {result.path}")
    if result.signal is not None and result.status == "interrupted":
        print("Run the same command with --resume to continue.", file=sys.stderr)
    return _exit_code(result)


def _spec_of_config(spec: Spec, args: TrainArgs, given: Mapping[str, Any]) -> Spec:
    """Return the spec with the settings of a config in all fields without a flag; print what was not taken over."""
    if args.config is None or args.from_ is None or args.preset:
        problem = "--config and --preset both give settings" if args.preset else "--config and --from need each other"
        raise RequestError("flags", f"{problem}.", "Use --config FILE --from DIALECT; `rollshape dialects` lists them.")
    from rollshape.geometry.dialects.sources import load
    from rollshape.training.from_config import settings_from_config

    source = load(args.config, args.key)
    taken = settings_from_config(
        source.values, args.from_, num_envs=given.get("num_envs"), key=source.key, file=source.name
    )
    for group in (("minibatch_size", "num_minibatches"), ("num_steps", "rollout_size")):
        if any(name in given for name in group):  # a flag replaces the size that it implies, too
            for name in group:
                taken.fields.pop(name, None)
    if "env" not in taken.fields and "env" not in given:
        raise RequestError("missing-key", "The config does not name its environment.", "Add --env.")
    if "env" not in given:
        from rollshape.envs.trust import check_module

        env = taken.fields["env"]
        check_module(env, args.config, f"If you trust this code, add --env {env}.")
    overridden = [name for name in taken.fields if name in given and taken.fields[name] != given[name]]
    for line in taken.not_taken:
        print(f"not taken over: {line}", file=sys.stderr)
    if overridden:
        print(f"overridden by flags: {', '.join(overridden)}", file=sys.stderr)
    return replace(spec, **{name: value for name, value in taken.fields.items() if name not in given})


def _train_seeds(spec: Spec, num_seeds: int, args: TrainArgs) -> int:
    from rollshape.cli.seeds import run_seeds
    from rollshape.studies.engines.seed_worker import SeedOptions

    refuse_with_seeds(args)
    options = SeedOptions(**{field.name: getattr(args, field.name) for field in fields(SeedOptions)})
    return run_seeds(spec, num_seeds, options, resume=args.resume, as_json=args.json)


def _print_note(note: str) -> None:
    print(f"note: {note}", file=sys.stderr)


def _exit_code(result: Any) -> int:
    if result.status == "interrupted":
        return INTERRUPTED + int(result.signal or signal.SIGTERM)  # without one: another process was interrupted
    return 0 if result.status == "done" else FAILED
