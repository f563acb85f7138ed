"""`python -m trimask_cli`, for where scripts are not on the path."""

from __future__ import annotations

import sys

from trimask_cli.main import main

sys.exit(main())
