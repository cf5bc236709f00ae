"""Options for XLA's CPU compiler: of programs that train, and of those that a process calls a few times.

On other platforms XLA's own defaults are used.
"""

from __future__ import annotations

from typing import Any

import jax


def training_options() -> dict[str, Any] | None:
    """Return the options of a program whose running time counts.

    Gradient steps are a chain of small kernels, so starting several of them at once costs more than it gains: with one
    shard (CartPole, 4×128) an update takes a tenth less time without it. 512-bit vectors save another tenth where the
    CPU has them.
    """
    if jax.default_backend() != "cpu":
        return None
    return {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED", "xla_cpu_prefer_vector_width": 512}


def quick_options(*, is_long: bool = False) -> dict[str, Any] | None:
    """Return the options of a program that takes longer to compile than to run.

    LLVM's full optimization and XLA's fusion emitters take half to two thirds of the compile time. Without the emitters
    small kernels take about twice as long, so programs that run for seconds in total (`is_long`) keep them.
    """
    if jax.default_backend() != "cpu":
        return None
    options = {"xla_backend_optimization_level": 1, "xla_cpu_parallel_codegen_split_count": 1}
    return options if is_long else {**options, "xla_cpu_use_fusion_emitters": False}
