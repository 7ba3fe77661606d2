"""`python -m regard`, and what torchrun starts: torchrun --nproc-per-node 2 -m regard train RECIPE."""

import atexit
import os
import sys

from regard.cli import main

if __name__ == "__main__":
    status = main()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # DDP keeps the threads of gloo alive. Such a thread needs Python to free the tensor of its last collective, and
        # if Python is ending at that moment, a finished process aborts. So end the process without ending Python first.
        atexit._run_exitfuncs()
        os._exit(status)
    sys.exit(status)
