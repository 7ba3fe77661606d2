"""`python -m regard`, and what torchrun starts: torchrun --nproc-per-node 2 -m regard train RECIPE."""

import sys

from regard.cli import main

if __name__ == "__main__":
    sys.exit(main())
