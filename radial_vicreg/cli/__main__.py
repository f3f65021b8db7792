"""``python -m radial_vicreg.cli``."""

import sys

from radial_vicreg.cli import main

sys.exit(main())
