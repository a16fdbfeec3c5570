"""terminal.py CAIRN: what the command prints on a terminal: widths, progress, colours.

Every case runs with both streams on a pseudo-terminal of a given width. Lines of tables are at most 80 columns wide;
a line of progress is never wider than the terminal and is gone at the end; colours are there only where they are
wanted.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

CAIRN = sys.argv[1]
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(arguments, columns=80, **environment):
    """What arrives at the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen([CAIRN, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env={**plain, "TERM": "xterm", **environment})
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side has closed
            part = b""
        if not part:
            break
        said += part
    os.close(ours)
    process.wait()
    assert process.returncode == 0, (arguments, process.returncode, said)
    return said.decode().replace("\r\n", "\n")


def shown(text):
    """The lines that stay, and the widths of all that were shown for a while."""
    stay, passing = [], []
    for line in text.split("\n"):
        parts = ESCAPE.sub("", line).split("\r")
        stay.append(parts[-1])
        passing += [len(part) for part in parts[:-1]]
    return stay, passing


def check(condition, *what):
    if not condition:
        print("terminal:", *what, file=sys.stderr)
        sys.exit(1)


def main():
    with open("own.net", "w") as file:
        file.write("network own\ninput 3x16x16\nclasses 4\n\nc1 conv2d channels=8 kernel=3\nr relu\nf flatten\n"
                   "fc linear features=classes\nloss cross_entropy\n")
    tables = (["zoo"], ["zoo", "resnet18"], ["plan", "resnet50", "--batch", "256", "--budget", "40%"],
              ["sweep", "own.net", "--step", "25"], ["fit", "own.net", "--budget", "1MiB"], ["--help"],
              ["profile", "own.net", "--backend", "ref", "--repeat", "3", "-o", "own.costs"],
              ["train", "own.net", "--backend", "ref", "--data", "synthetic", "--samples", "64", "--input", "3x16x16",
               "--classes", "4", "--epochs", "2", "--batch", "8"])
    for arguments in tables:
        stay, passing = shown(on_terminal(arguments))
        for line in stay:
            # a hash, an own name or a sentence may be longer; a row of a table may not
            is_row = not re.search(r"sha256|^cairn: |parameters \(", line)
            check(len(line) <= 80 or not is_row, f"{arguments}: {len(line)} columns: {line}")
        check(all(width <= 79 for width in passing), arguments, "progress is wider than the terminal", passing)

    # Progress: one line, as narrow as the terminal, that is overwritten and then gone.
    long = ["sweep", "convnet", "--batch", "8", "--step", "10"]
    for columns in 80, 30:
        stay, passing = shown(on_terminal(long, columns))
        check(len(passing) > 3 and max(passing) > 5, "no progress is shown", passing)
        check(max(passing) <= columns - 1, "progress wraps at", columns, passing)
        check(not any("%, " in line and line.startswith("sweep") for line in stay), "progress stays", stay)
    percents = [int(p) for p in re.findall(r"sweep: (\d+)%", on_terminal(long))]
    check(percents and max(percents) == 100 and len(set(percents)) > 3, "progress does not count", percents)

    # Colours: on a terminal only, and not if they are unwanted.
    plan = ["plan", "convnet", "--budget", "60%"]
    check(COLOUR.search(on_terminal(plan)), "there are no colours on a terminal")
    check(not COLOUR.search(on_terminal(plan, NO_COLOR="1")), "NO_COLOR is ignored")
    check(COLOUR.search(on_terminal(plan, NO_COLOR="")), "an empty NO_COLOR must not count")
    check(not COLOUR.search(on_terminal(plan, TERM="dumb")), "a dumb terminal has no colours")
    piped = subprocess.run([CAIRN, *long], capture_output=True, check=True)
    check(b"\x1b" not in piped.stdout + piped.stderr and b"\r" not in piped.stderr, "escapes in a pipe")
    check("\x1b" not in on_terminal([*plan, "--json"]), "escapes in JSON")
    print("widths, progress and colours are right")


with tempfile.TemporaryDirectory() as folder:
    CAIRN = os.path.abspath(CAIRN)
    os.chdir(folder)
    main()
