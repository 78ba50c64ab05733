"""`python -m thalweg` runs the command `thalweg`."""

import sys

from thalweg.cli import main

if __name__ == "__main__":
    sys.exit(main())
