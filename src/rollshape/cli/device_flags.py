"""Flags that choose what computes a run: the platform, and several processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from rollshape.cli.flags import CommonArgs
from rollshape.errors import RequestError
from rollshape.geometry.values import Range

Platform = Literal["cpu", "gpu", "tpu"]
_JAX_NAMES = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
_PACKAGES = {"gpu": "pip install 'jax[cuda12]'", "tpu": "pip install 'jax[tpu]'"}
PROCESSES = Range(2, 10_000)


@dataclass(frozen=True, kw_only=True)
class DeviceArgs(CommonArgs):
    """Flags for the devices of a run."""

    platform: Annotated[Platform | None, "what computes the run (default: a GPU or TPU if JAX has one)"] = None
    coordinator: Annotated[
        str | None, "train on several processes or hosts: HOST:PORT of the first process, a free port there"
    ] = None
    num_processes: Annotated[int | None, "with --coordinator: the number of processes", PROCESSES] = None
    process_id: Annotated[int | None, "with --coordinator: which of them this is, from 0", Range(0, 9_999)] = None


def use_devices(args: DeviceArgs) -> bool:
    """Set up JAX as the flags say; return whether this is the process that reports the run."""
    if args.platform is not None:
        import jax

        config: Any = jax.config
        config.update("jax_platforms", _JAX_NAMES[args.platform])
    is_reporting = _join(args)  # before JAX creates its devices
    if args.platform is not None:
        _check_platform(args.platform)
    return is_reporting


def refuse_with_seeds(args: DeviceArgs) -> None:
    """Raise a RequestError if a flag has no effect on the processes that train several seeds."""
    if args.platform in ("gpu", "tpu") or (args.coordinator, args.num_processes, args.process_id) != (None, None, None):
        raise RequestError(
            "flags",
            "--num-seeds trains every seed in a CPU process of its own.",
            "Omit --num-seeds, or --platform, --coordinator, --num-processes and --process-id.",
        )


def _join(args: DeviceArgs) -> bool:
    """Connect to the other processes, if there are any; return whether this one reports the run."""
    if (args.coordinator, args.num_processes, args.process_id) == (None, None, None):
        return True
    if args.coordinator is None or args.num_processes is None or args.process_id is None:
        raise RequestError(
            "processes",
            "--coordinator, --num-processes and --process-id belong together.",
            "For two processes: --coordinator 127.0.0.1:12345 --num-processes 2 --process-id 0 (and 1).",
        )
    if args.process_id >= args.num_processes:
        raise RequestError(
            "processes",
            f"--process-id {args.process_id} is not one of {args.num_processes} processes.",
            f"Use 0 to {args.num_processes - 1}.",
        )
    from rollshape.training.distributed import join_processes

    join_processes(args.coordinator, args.num_processes, args.process_id)
    return args.process_id == 0


def _check_platform(platform: Platform) -> None:
    """Raise a RequestError that says how to install the platform if JAX does not have it."""
    import jax

    if platform == "cpu":
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError):  # JAX asserts that a platform without a plugin exists
        raise RequestError(
            "platform",
            f"JAX finds no {platform.upper()} on this machine.",
            f"Install JAX for it ({_PACKAGES[platform]}), or omit --platform.",
        ) from None
