#!/usr/bin/env python3
"""Make the wheel of the package: make_wheel.py BUILD OUT [PLATFORM].

The wheel holds python/cairn, libcairn_plan.so from BUILD, the jansson that it is linked with, and their licences. The
same input gives the same bytes. PLATFORM is the wheel's tag; by default the wheel is for this machine only.

This is also the build backend that pyproject.toml names: `pip install .` calls build_wheel, which builds the planner
with CMake first. Only the standard library is used, so that the package that the tests install is the one that users
get, and is made from the same build.
"""

import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLANNER, JANSSON = "libcairn_plan.so", "libjansson.so.4"
# Only the planner is built: no test, no oneDNN, no CUDA, and no debugging information.
CMAKE_OPTIONS = ["-D", "CMAKE_BUILD_TYPE=Release", "-D", "CAIRN_TESTS=OFF", "-D", "CAIRN_ONEDNN=OFF", "-D",
                 "CAIRN_CUDA=OFF", "-D", "CMAKE_SHARED_LINKER_FLAGS=-Wl,--strip-debug"]
CMAKE_OLDEST = (3, 25)


def read(*path: str) -> bytes:
    with open(os.path.join(ROOT, *path), "rb") as file:
        return file.read()


# ---- what the wheel says about itself ----

def project() -> dict:
    """The table [project] of pyproject.toml, with the version from CMakeLists.txt."""
    table = tomllib.loads(read("pyproject.toml").decode())["project"]
    found = re.search(r"project\(cairn VERSION ([0-9.]+)", read("CMakeLists.txt").decode())
    assert found is not None
    return dict(table, version=found.group(1))


def file_name(table: dict) -> str:
    return f"{table['name'].replace('-', '_')}-{table['version']}"


def licences(table: dict) -> list[str]:
    return sorted(path for pattern in table["license-files"] for path in glob.glob(pattern, root_dir=ROOT))


def metadata(table: dict) -> bytes:
    fields = [("Metadata-Version", "2.4"), ("Name", table["name"]), ("Version", table["version"]),
              ("Summary", table["description"]), ("License-Expression", table["license"])]
    fields += [("License-File", path) for path in licences(table)]
    fields += [("Classifier", one) for one in table["classifiers"]]
    fields += [("Requires-Python", table["requires-python"])]
    fields += [("Requires-Dist", one) for one in table["dependencies"]]
    fields += [("Description-Content-Type", "text/markdown")]
    return ("".join(f"{name}: {value}\n" for name, value in fields) + "\n").encode() + read(table["readme"])


def commit() -> str:
    """The commit of the sources, with a + if they were changed since; empty if they are not in a repository."""
    run = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
                         capture_output=True, text=True, check=False)
    return run.stdout


# ---- the wheel ----

def linked(library: str, name: str) -> str:
    """The file that the build linked for `name`. For another architecture ldd says nothing; then it lies beside."""
    beside = os.path.join(os.path.dirname(library), name)
    if os.path.exists(beside):
        return beside
    run = subprocess.run(["ldd", library], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        if name in line and "=>" in line:
            return line.split("=>")[1].split()[0]
    sys.exit(f"make_wheel.py: {library} is not linked with {name}")


def contents(build: str, table: dict, platform: str):
    """Pairs of a place in the wheel and its bytes."""
    package = os.path.join(ROOT, "python", "cairn")
    for file in sorted(os.listdir(package)):
        if file.endswith((".py", ".typed")):
            yield f"cairn/{file}", read(package, file)
    yield "cairn/COMMIT", commit().encode()
    library = os.path.join(build, PLANNER)
    yield f"cairn/{PLANNER}", read(library)
    yield f"cairn/{JANSSON}", read(linked(library, JANSSON))
    info = file_name(table) + ".dist-info"
    yield f"{info}/METADATA", metadata(table)
    yield f"{info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: cairn\nRoot-Is-Purelib: false\n"
                            f"Tag: py3-none-{platform}\n").encode()
    for path in licences(table):
        yield f"{info}/licenses/{path}", read(path)


def write(build: str, out: str, platform: str | None = None) -> str:
    """Write the wheel to the folder `out`; returns its path."""
    table = project()
    platform = platform or re.sub(r"[-.]", "_", sysconfig.get_platform())
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"{file_name(table)}-py3-none-{platform}.whl")
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(place: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if ".so" in place else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
        for place, data in contents(os.path.abspath(build), table, platform):
            add(place, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(data)}")
        place = f"{file_name(table)}.dist-info/RECORD"
        add(place, "\n".join([*record, f"{place},,", ""]).encode())
    return path


# ---- for pip: https://peps.python.org/pep-0517 ----

def has_cmake() -> bool:
    if shutil.which("cmake") is None:
        return False
    run = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+)\.(\d+)", run.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= CMAKE_OLDEST


def get_requires_for_build_wheel(config_settings=None) -> list[str]:
    """The tools that pip has to bring because the machine has none."""
    return ([] if has_cmake() else ["cmake>=" + ".".join(map(str, CMAKE_OLDEST))]) + \
           ([] if shutil.which("make") or shutil.which("ninja") else ["ninja"])


def build_planner(build: str) -> None:
    generator = [] if shutil.which("make") or not shutil.which("ninja") else ["-G", "Ninja"]
    subprocess.run(["cmake", "-S", ROOT, "-B", build, *generator, *CMAKE_OPTIONS], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "cairn_plan", "-j", str(os.cpu_count() or 1)], check=True)


def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    with tempfile.TemporaryDirectory() as build:
        try:
            build_planner(build)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit("The planner could not be built; the reason is above. A C compiler, pkg-config and jansson are needed "
                     f"(Debian: apt install gcc libc6-dev pkg-config libjansson-dev). {error}")
        return os.path.basename(write(build, wheel_directory))


def build_sdist(sdist_directory: str, config_settings=None) -> str:
    """The files that git knows."""
    table = project()
    name = f"{file_name(table)}.tar.gz"
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as archive:
        for path in filter(None, files.split("\0")):
            archive.add(os.path.join(ROOT, path), f"{file_name(table)}/{path}")
        with tempfile.NamedTemporaryFile() as info:
            info.write(metadata(table))
            info.flush()
            archive.add(info.name, f"{file_name(table)}/PKG-INFO")
    return name


if __name__ == "__main__":
    print(write(*sys.argv[1:]))
