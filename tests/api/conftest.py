"""Made-up runs and simple environments come from the tests of other packages."""

import sys
from pathlib import Path

for _folder in ("reports", "envs"):
    sys.path.insert(0, str(Path(__file__).parents[1] / _folder))
