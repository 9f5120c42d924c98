"""Run a program that ends when the process that started it ends, however that ends.

    python -I -S tether.py PARENT PROGRAM [ARGUMENT…]

A program of its own, not a function run between fork and exec: that is unsafe once the parent
has threads. It becomes the program (exec), so the process id stays the same.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to the parent and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        # Kept across exec. It is the thread that forked us whose end counts.
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it ended before we were tied to it
        sys.exit(1)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
