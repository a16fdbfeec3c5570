#!/bin/sh
# package.sh: build/cairn_VERSION_ARCHITECTURE.deb with the command, the libraries, headers, manual
# page and completions.
#
# It is built in a separate folder, because the prefix of a package is /usr and it has no tests.
set -eu
cd "$(dirname "$0")/.."
cmake --preset release -B build-package -D CAIRN_TESTS=OFF -D CMAKE_INSTALL_PREFIX=/usr \
    -D CMAKE_INSTALL_LIBDIR="lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)" >/dev/null
cmake --build build-package -j "${JOBS:-2}" >/dev/null
(cd build-package && cpack -G DEB >cpack.log 2>&1) || {
    cat build-package/cpack.log >&2
    exit 1
}
mkdir -p build
rm -f build/cairn_*.deb
mv build-package/cairn_*.deb build/
ls build/cairn_*.deb
