"""What every test process needs: two JAX devices, shared compiled programs, and memory that does not pile up."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

CACHE = Path(__file__).parents[1] / ".pytest_jax_cache"
MOST_BYTES = 800_000_000  # of a worker, above which it drops its compiled programs

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # before anything computes: runs of two shards need them
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # workers and the processes they start share programs
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Most of the time is compiling, and tests are small: without LLVM's optimizations a program compiles in half the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# A suite that was started in the background ignores Ctrl-C, and the processes it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _release_programs() -> Iterator[None]:
    """Drop compiled programs before a worker grows to gigabytes."""
    yield
    if psutil.Process().memory_info().rss < MOST_BYTES:
        return
    from rollshape.training.programs import release_programs

    release_programs()
