"""run_script.py SCRIPT [ARG]...: run a script and leave without ending the interpreter.

PyTorch's threads for gloo live until the interpreter ends once there was a DDP model, and one of them may then abort
the process ("terminate called without an active exception"): 1 of 80 runs of a script without Cairn.
"""

import os
import runpy
import sys

del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
