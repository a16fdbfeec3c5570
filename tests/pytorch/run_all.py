"""run_all.py JOBS FILE[:TESTS]...: run files of tests, JOBS at a time, in the order given; of a file only those of its tests
whose class or name is one of TESTS, which commas separate. Prints only failures, and why a test was skipped.

Importing torch and cairn takes seconds, so it is done once: each file runs in a process that is forked after it. No test
has run in the process that is copied, and it has no other thread."""

import os
import re
import runpy
import sys
import tempfile
import traceback

import cairn  # noqa: F401 (torch too)


def options(only):
    """The arguments of unittest for words that commas separate."""
    words = []
    for word in filter(None, only.split(",")):
        words += ["-k", f"test_{word}"] if word[0].islower() else [word]
    return words


def child(file, only, output):
    """Run a file as a script does, with what it prints in `output`; never returns."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.argv = [f"{file}.py", "-v", *options(only)]
    status = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        status = int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def report(entry, output, status):
    output.seek(0)
    text = output.read()
    ran = re.search("^Ran.*", text, re.M)
    name = entry.replace(":", " ").replace(",", " ")
    if status or ran is None:
        print(f"{text}FAILED  {name}", flush=True)
        return False
    print(f"passed  {name}  {ran[0]}", flush=True)
    for reason in re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", text, re.M):
        print(f"skipped {reason}", flush=True)
    return True


def main(jobs, entries):
    assert len(os.listdir("/proc/self/task")) == 1, "a process with several threads must not be forked"
    running, passed, waiting = {}, True, list(entries)
    while waiting or running:
        while waiting and len(running) < jobs:
            entry = waiting.pop(0)
            output = tempfile.TemporaryFile("w+", errors="replace")
            file, _, only = entry.partition(":")
            process = os.fork()
            if process == 0:
                child(file, only, output)
            running[process] = entry, output
        process, status = os.wait()
        if process in running:
            entry, output = running.pop(process)
            with output:
                passed &= report(entry, output, status)
    return not passed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
