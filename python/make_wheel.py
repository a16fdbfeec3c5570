#!/usr/bin/env python3
"""Make the wheel of the package: make_wheel.py BUILD OUT.

The wheel holds python/cairn, libcairn_plan.so from BUILD, and the jansson that it is linked with. It uses only the
standard library; the same input gives the same bytes."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TAG = "py3-none-manylinux_2_36_x86_64"
SUMMARY = "Train inside a memory budget, with the same gradients bit for bit"


def version():
    with open(os.path.join(HERE, "..", "CMakeLists.txt")) as file:
        return re.search(r"project\(cairn VERSION ([0-9.]+)", file.read()).group(1)


def linked(library, name):
    """The file that the loader would use for `name`."""
    for line in subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout.splitlines():
        if name in line and "=>" in line:
            return line.split("=>")[1].split()[0]
    sys.exit(f"make_wheel.py: {library} is not linked with {name}")


def commit():
    """The commit of the sources, with a + if they were changed since; empty if they are not in a repository."""
    run = subprocess.run(["git", "-C", HERE, "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
                         capture_output=True, text=True)
    return run.stdout


def contents(build, name):
    package = os.path.join(HERE, "cairn")
    for file in sorted(os.listdir(package)):
        if file.endswith(".py"):
            with open(os.path.join(package, file), "rb") as source:
                yield f"cairn/{file}", source.read()
    yield "cairn/COMMIT", commit().encode()
    library = os.path.join(build, "libcairn_plan.so")
    for path, place in ((library, "libcairn_plan.so"), (linked(library, "libjansson.so.4"), "libjansson.so.4")):
        with open(path, "rb") as source:
            yield f"cairn/{place}", source.read()
    yield f"{name}.dist-info/METADATA", (f"Metadata-Version: 2.1\nName: cairn\nVersion: {version()}\n"
                                         f"Summary: {SUMMARY}\nRequires-Python: >=3.10\n").encode()
    yield f"{name}.dist-info/WHEEL", (f"Wheel-Version: 1.0\nGenerator: cairn\nRoot-Is-Purelib: false\n"
                                      f"Tag: {TAG}\n").encode()
    with open(os.path.join(HERE, "..", "LICENSE"), "rb") as source:
        yield f"{name}.dist-info/LICENSE", source.read()


def main(build, out):
    name = f"cairn-{version()}"
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"{name}-{TAG}.whl")
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(place, data):
            entry = zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        for place, data in contents(build, name):
            add(place, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(data)}")
        record.append(f"{name}.dist-info/RECORD,,")
        add(f"{name}.dist-info/RECORD", ("\n".join(record) + "\n").encode())
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:3])
