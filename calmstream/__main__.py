"""``python -m calmstream``."""

import sys

from calmstream.cli import main

sys.exit(main())
