"""What every test process needs: two JAX devices, shared compiled programs, and memory that does not pile up."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".pytest_jax_cache"

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # before anything computes: runs of two shards need them
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # workers and the processes they start share programs
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Most of the time is compiling, and tests are small: less optimization takes a fifth off.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
# A suite that was started in the background ignores Ctrl-C, and the processes it starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _release_programs() -> Iterator[None]:
    """Drop compiled programs after each module: a worker would otherwise grow to gigabytes."""
    yield
    import jax

    from rollshape.training.trim import trim_memory

    jax.clear_caches()
    gc.collect()
    trim_memory()
