"""`python -m rollshape.cli`."""

import sys

from rollshape.cli import main

sys.exit(main())
