"""`python -m thalweg`: the same as the command `thalweg`."""

import sys

from thalweg.cli import main

if __name__ == "__main__":
    sys.exit(main())
