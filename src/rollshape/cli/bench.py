"""`rollshape bench`: training speed at several shapes, compared with the machine's peak and with other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from rollshape.cli.flags import CommonArgs, parse


@dataclass(frozen=True, kw_only=True)
class BenchArgs(CommonArgs):
    """Steps/s, compile time and utilisation = model FLOPs / (time × matrix-multiply rate of this process).

    Where SB3 and sbx are installed they are timed at the same shapes and settings.
    """

    env: Annotated[str, "environment id"] = "CartPole-v1"
    shapes: Annotated[tuple[str, ...], "shapes as NxT"] = ("4x128", "64x128", "512x16", "2048x16")
    seconds: Annotated[float, "approximate duration of the measurement per shape"] = 3.0


def run(argv: Sequence[str]) -> None:
    args = parse(BenchArgs, "bench", argv)
    from rollshape.cli.output import print_json
    from rollshape.training.bench import bench

    rows = bench(args.env, args.shapes, args.seconds)
    if args.json:
        print_json([row._asdict() for row in rows])
        return
    for i, row in enumerate(rows):
        if i == 0:
            peers = "".join(f"  {name + ' steps/s':>14}  ratio" for name in row.peers)
            print(f"     shape     steps/s  compile s  utilisation (of {row.gemm_gflops:.0f} GFLOP/s){peers}")
        peers = "".join(f"  {speed:>14,.0f}  {row.sps / speed:>4.1f}×" for speed in row.peers.values())
        print(f"{row.shape:>10}  {row.sps:>10,}  {row.compile_s:>9.2f}  {row.utilisation:>11.3f}{'':>19}{peers}")
