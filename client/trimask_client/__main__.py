"""`python -m trimask_client`."""

import sys

from trimask_client.cli import main

sys.exit(main())
