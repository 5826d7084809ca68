"""`python -m vegakit` is `vega`."""

import sys

from vegakit.cli import main

if __name__ == "__main__":
    sys.exit(main())
