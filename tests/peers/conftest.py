"""One thread each: the nets are tiny, and two workers share the machine."""

import os

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

pytest.register_assert_rewrite("peers.checks")
