"""JAX gets two devices before anything computes: runs of two shards need them."""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
