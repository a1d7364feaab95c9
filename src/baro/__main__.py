"""``python -m baro`` is the same as ``baro``."""

from __future__ import annotations

import sys

from baro.cli import main

sys.exit(main())
