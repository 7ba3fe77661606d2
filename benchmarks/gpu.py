"""Training and decoding on one GPU beside the peers, as one command.

    python -m benchmarks.gpu             base and big, every contender; compiling Marian takes minutes by itself
    python -m benchmarks.gpu --quick     base alone, fewer steps, Marian not compiled

Each table runs in a process of its own: what one holds of the GPU's memory, or has compiled, is nothing to the next.
Either can be had alone, with more to choose: `python -m benchmarks.gpu_training --help`.
"""

import argparse
import shlex
import subprocess
import sys

import torch

EVERYTHING = ("gpu_training --size base", "gpu_training --size big", "gpu_decoding")
QUICK = ("gpu_training --only compiled+captured,torch,marian --steps 5 --rounds 3", "gpu_decoding")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="base alone, fewer steps, Marian not compiled")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU here; python -m benchmarks.cpu measures on the CPU")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for command in QUICK if options.quick else EVERYTHING:
        print(f"\npython -m benchmarks.{command}", flush=True)
        module, *arguments = shlex.split(command)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments], check=False)
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
