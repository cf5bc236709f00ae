"""`rollshape bench`: training speed at several shapes, compared with the machine's peak and with other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rollshape.cli.env_flags import EnvArgs, calling_envs
from rollshape.cli.flags import parse
from rollshape.errors import RequestError
from rollshape.geometry.fields import new_record
from rollshape.geometry.values import COUNT, Range

if TYPE_CHECKING:
    from rollshape.envs.access import EnvAccess
    from rollshape.training.bench import Bench
    from rollshape.training.knee import EnvsSpeed

SECONDS = Range(0.001, 86_400)
SHAPES = ("4x128", "64x128", "512x16", "2048x16")


@dataclass(frozen=True, kw_only=True)
class BenchArgs(EnvArgs):
    """Steps/s, compile time and utilisation = model FLOPs / (time × matrix-multiply rate of this process).

    Where SB3 and sbx are installed they are timed at the same shapes and settings. With --knee, find the number of
    environments beyond which steps/s no longer grow: N = 1, 2, 4, … until two doublings gain less than 10 %.
    """

    env: Annotated[str, "environment id, functional or on the host"] = "CartPole-v1"
    shapes: Annotated[tuple[str, ...], "shapes as NxT"] = SHAPES
    seconds: Annotated[float, "approximate duration of the measurement per shape", SECONDS] = 3.0
    knee: Annotated[bool, "find the number of environments beyond which steps/s no longer grow"] = False
    num_steps: Annotated[int | None, "with --knee: steps per environment and rollout (default: 32)", COUNT] = None
    max_envs: Annotated[int | None, "with --knee: largest number of environments (default: 16384)", COUNT] = None


def run(argv: Sequence[str]) -> None:
    args = new_record(BenchArgs, parse(BenchArgs, "bench", argv), {})
    _check_flags(args)
    from rollshape.envs.access import EnvAccess

    (_run_knee if args.knee else _run_shapes)(args, EnvAccess(args.env_timeout, args.isolate_env))


def _check_flags(args: BenchArgs) -> None:
    """Raise a RequestError for a flag that would have no effect."""
    if args.knee and args.shapes != SHAPES:
        raise RequestError("contradiction", "--knee chooses the shapes itself.", "Use --num-steps instead of --shapes.")
    if not args.knee and (args.num_steps, args.max_envs) != (None, None):
        raise RequestError(
            "contradiction", "--num-steps and --max-envs belong to --knee.", "Add --knee, or use --shapes NxT."
        )


def _run_shapes(args: BenchArgs, access: EnvAccess) -> None:
    from rollshape.cli.output import print_json
    from rollshape.training.bench import bench

    rows = []
    with calling_envs(args.json):
        for row in bench(args.env, args.shapes, args.seconds, access=access):
            rows.append(row)
            if not args.json:
                _print_shape(row, is_first=len(rows) == 1)
    if args.json:
        print_json([row._asdict() for row in rows])


def _print_shape(row: Bench, *, is_first: bool) -> None:
    if is_first:
        peers = "".join(f"  {name + ' steps/s':>14}  ratio" for name in row.peers)
        print(f"     shape     steps/s  compile s  utilisation (of {row.gemm_gflops:.0f} GFLOP/s){peers}")
    peers = "".join(f"  {speed:>14,.0f}  {row.sps / speed:>4.1f}×" for speed in row.peers.values())
    line = f"{row.shape:>10}  {row.sps:>10,}  {row.compile_s:>9.2f}  {row.utilisation:>11.3f}{'':>19}{peers}"
    print(line.rstrip(), flush=True)


def _run_knee(args: BenchArgs, access: EnvAccess) -> None:
    from rollshape.cli.output import print_json
    from rollshape.training.knee import MAX_ENVS, NUM_STEPS, describe_knee, measure_knee

    with calling_envs(args.json):
        result = measure_knee(
            args.env,
            NUM_STEPS if args.num_steps is None else args.num_steps,
            MAX_ENVS if args.max_envs is None else args.max_envs,
            args.seconds,
            access,
            (lambda _: None) if args.json else _print_envs,
        )
    if args.json:
        print_json(result.to_dict())
    else:
        print(describe_knee(result))


def _print_envs(row: EnvsSpeed) -> None:
    if row.ratio is None and not row.in_turns:
        print("         N     steps/s  (quartiles)               ratio  compile s")
    quartiles = f"({row.sps_low:,} – {row.sps_high:,})"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}×"
    last = "in turns" if row.in_turns else f"{row.compile_s:.2f}"
    print(f"{row.num_envs:>10,}  {row.sps:>10,}  {quartiles:<23}  {ratio:>6}  {last:>9}", flush=True)
