"""The command line, `bundle/commands.py`: python -m fedsynth_lib COMMAND."""

import sys

from fedsynth_lib.bundle.commands import main

if __name__ == "__main__":
    sys.exit(main())
