"""The run that this process is in; without one, nothing here can be imported."""

from __future__ import annotations

import os

from ranktable.simulate.simulated_run import current_run

FOLDER, RUN = current_run(os.environ)
