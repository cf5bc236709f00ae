"""`python -m rollshape.cli`."""

import sys

from rollshape.cli import run_process

sys.exit(run_process())
