"""``python -m symgrad``: the command line."""

from __future__ import annotations

import sys

from symgrad.cli import main

sys.exit(main())
