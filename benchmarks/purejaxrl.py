"""Training speed beside PureJaxRL: CartPole PPO, 64-64 networks, 4 epochs, 4 minibatches, both on all cores.

Each of the two compiles once, then they train in turns, so that the machine's drift meets both. The ratio is the median
over the turns. PureJaxRL comes from a checkout, with its requirements in a virtual environment of their own:

    pip install jax==0.10.2 flax distrax brax navix gymnax==0.0.9
    .venv/bin/python benchmarks/purejaxrl.py CHECKOUT --python OTHER_VENV/bin/python
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

SHAPES = ("4x128", "64x128", "512x16", "2048x16")
RATIO = 2.0
CHUNK = 400_000  # timesteps per turn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of PureJaxRL")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has its requirements")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="shapes as NxT")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--serve", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        num_envs, num_steps = map(int, args.shapes[0].split("x"))
        with redirect_stdout(sys.stderr):  # imports may print
            trained = ours(num_envs, num_steps) if args.serve == "ours" else theirs(args.checkout, num_envs, num_steps)
        serve(*trained)
        return 0
    print("     shape   PureJaxRL   Rollshape  ratio (range)         bar  compile s")
    met = True
    for shape in args.shapes:
        with (
            worker(sys.executable, args.checkout, shape, "ours") as first,
            worker(args.python, args.checkout, shape, "theirs") as second,
        ):
            compile_s = [turn() for turn in (first, second)]
            pairs = [(first(), second()) for _ in range(args.turns)]
        ratios = sorted(mine / other for mine, other in pairs)
        mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(ratios)
        met = met and ratio >= RATIO
        spread = f"{ratio:.2f} ({ratios[0]:.2f} – {ratios[-1]:.2f})"
        times = f"{compile_s[0]:.1f} against {compile_s[1]:.1f}"
        print(f"{shape:>10}  {other:>10,.0f}  {mine:>10,.0f}  {spread:<20}  {RATIO:.1f}  {times}", flush=True)
    return 0 if met else 1


@contextmanager
def worker(python: str, checkout: Path, shape: str, which: str) -> Iterator[Callable[[], float]]:
    """Start a process that trains when it is asked to; yield a function that asks, and returns its number."""
    command = [python, "-P", str(Path(__file__).resolve()), str(checkout), "--shapes", shape, "--serve", which]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        pipe_in, pipe_out = process.stdin, process.stdout
        assert pipe_in is not None
        assert pipe_out is not None

        def ask() -> float:
            pipe_in.write("\n")
            pipe_in.flush()
            return float(json.loads(pipe_out.readline()))

        yield ask
        pipe_in.close()


def serve(compile_s: float, advance: Callable[[], int]) -> None:
    """Answer the first line on stdin with the seconds of compiling, every further one with steps/s."""
    sys.stdin.readline()
    print(compile_s, flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        steps = advance()
        print(steps / (time.perf_counter() - began), flush=True)


def ours(num_envs: int, num_steps: int) -> tuple[float, Callable[[], int]]:
    """Return the seconds of compiling, and a function that trains for a while and returns the number of steps."""
    from rollshape.algorithms.parallel import reserve_devices
    from rollshape.envs.registry import make
    from rollshape.training.compiled_driver import CompiledDriver
    from rollshape.training.speed import new_spec

    reserve_devices()
    spec = new_spec("CartPole-v1", f"{num_envs}x{num_steps}")
    interval = max(1, CHUNK // (num_envs * num_steps))
    driver = CompiledDriver(spec, spec.plan(), make(spec.env), interval)
    state = driver.start()
    began = time.perf_counter()
    driver.compile()
    compile_s = time.perf_counter() - began

    def advance() -> int:
        nonlocal state
        state, _, _ = driver.advance(state, interval)
        return interval * num_envs * num_steps

    advance()
    return compile_s, advance


def theirs(checkout: Path, num_envs: int, num_steps: int) -> tuple[float, Callable[[], int]]:
    """The same for PureJaxRL, whose whole training is one call."""
    sys.path.insert(0, str(checkout / "purejaxrl"))
    import jax
    from ppo import make_train  # type: ignore[import-not-found]

    updates = max(1, CHUNK // (num_envs * num_steps))
    config: dict[str, Any] = {
        "LR": 3e-4, "NUM_ENVS": num_envs, "NUM_STEPS": num_steps, "TOTAL_TIMESTEPS": updates * num_envs * num_steps,
        "UPDATE_EPOCHS": 4, "NUM_MINIBATCHES": 4, "GAMMA": 0.99, "GAE_LAMBDA": 0.95, "CLIP_EPS": 0.2, "ENT_COEF": 0.01,
        "VF_COEF": 0.5, "MAX_GRAD_NORM": 0.5, "ACTIVATION": "tanh", "ENV_NAME": "CartPole-v1", "ANNEAL_LR": False,
        "DEBUG": False,
    }  # fmt: skip
    key = jax.random.key(0)
    began = time.perf_counter()
    program = jax.jit(make_train(config)).lower(key).compile()
    compile_s = time.perf_counter() - began

    def advance() -> int:
        jax.block_until_ready(program(key))
        return int(config["TOTAL_TIMESTEPS"])

    advance()
    return compile_s, advance


if __name__ == "__main__":
    sys.exit(main())
