"""Where the programs under test stand.  tests/run sets these; by hand:

BUILD=/path/to/build
INCIDENTD_BIN=$BUILD/daemon/incidentd INCIDENTCTL_BIN=$BUILD/postmortem/incidentctl \\
VICTIMS_DIR=$BUILD/tests/victims python3 -m pytest tests/e2e
"""

import os
from pathlib import Path

INCIDENTD = os.environ["INCIDENTD_BIN"]
INCIDENTCTL = os.environ["INCIDENTCTL_BIN"]
VICTIMS = Path(os.environ["VICTIMS_DIR"])


def victim(name):
    return str(VICTIMS / name)
