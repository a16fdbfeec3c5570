#!/bin/sh
# bare-machine.sh [SUITE [COMMAND...]]: do what a new user does, on a machine where only git and
# make are installed.
#
#   SUITE       a Debian release: bookworm (Debian 12, the default) or trixie (Debian 13)
#   COMMAND     a command to run in the clone as root; default: the two commands of the README
#   --possible  only say whether a bare machine can be made here
#
# A bare Debian is made in a temporary folder with debootstrap, from the mirror that the apt set-up of
# this machine names. The commit that is checked out here is cloned into it. Then:
#
#   1. `make` must refuse, name what is missing and install nothing
#   2. each COMMAND runs as root
#   3. `make` runs as an ordinary user without sudo
#   4. `make package` leaves a package; it is installed in a second bare Debian, and plans ResNet-50
#
# The summary of the last tests that a COMMAND ran is repeated at the end.
#
# Exit status: 0 passed, 1 something failed, 77 a bare machine cannot be made here (one line says
# why). All mounts are in a separate namespace, which ends with its processes. The folder is removed
# at the end, even if a signal ends the script.
set -eu

cannot() {
    echo "no bare machine here: $1"
    exit 77
}

# ---- Outside: the folder, and the namespace ----

outside() {
    [ "$(id -u)" -eq 0 ] || cannot "it takes root"
    command -v debootstrap >/dev/null || cannot "debootstrap is not installed"
    grep -q '^ID=debian$' /etc/os-release || cannot "the apt set-up of this machine is not Debian's"
    unshare --mount --pid --fork true 2>/dev/null || cannot "mounts are not permitted"
    mirror=$("$(dirname "$0")/debian-mirror.sh")
    [ -n "$mirror" ] || cannot "apt names no mirror"
    [ "${1:-}" != --possible ] || exit 0

    source=$(cd "$(dirname "$0")/.." && pwd)
    folder=$(mktemp -d)
    inner=""
    trap 'clean' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
        env INSIDE="$folder" SOURCE="$source" MIRROR="$mirror" sh "$0" "$@" </dev/null &
    inner=$!
    status=0
    wait $inner || status=$?
    inner=""
    exit $status
}

clean() {
    if [ -n "$inner" ]; then
        kill -KILL "$inner" 2>/dev/null || true # this also ends all processes of the namespace
        wait "$inner" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$folder"
}

# ---- Inside: a bare Debian, and the commands ----

# prepare ROOT: set up what a running system has besides its files.
prepare() {
    mount -t proc proc "$1/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm" 2>/dev/null || true
    [ -e "$1/dev/null" ] || mount --rbind /dev "$1/dev"
    [ -e "$1/dev/pts/ptmx" ] || mount --bind /dev/pts "$1/dev/pts" # terminals
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    apt-config dump | grep -E '^Acquire::https?::Proxy ' >"$1/etc/apt/apt.conf.d/99proxy" || true
    echo 'Acquire::Retries "5";' >"$1/etc/apt/apt.conf.d/99retries"
    # Certificates that this machine trusts, for pip behind a proxy.
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/trusted.crt" 2>/dev/null || true
    echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/no-sync" # the machine is temporary
}

# enter ROOT USER COMMAND: run a command in the clone of that user, with a clean environment.
enter() {
    home=/root
    [ "$2" = root ] || home=/home/$2
    folder=/
    [ ! -e "$1$home/cairn" ] || folder=$home/cairn
    chroot "$1" su "$2" -s /bin/sh -c "cd $folder && exec env -i HOME=$home USER=$2 LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        $([ ! -s "$1/etc/trusted.crt" ] || echo PIP_CERT=/etc/trusted.crt) \
        ${http_proxy:+http_proxy=$http_proxy} ${https_proxy:+https_proxy=$https_proxy} $3"
}

clone() { # clone ROOT HOME: clone the commit, independent of the owner of the repository
    git -c safe.directory='*' -C "$SOURCE" bundle create -q "$INSIDE/commit" HEAD
    git -c advice.detachedHead=false clone -q "$INSIDE/commit" "$1$2/cairn"
}

# run WORDS COMMAND...: run a command, quietly unless it fails.
run() {
    words=$1
    shift
    if ! "$@" >"$INSIDE/log" 2>&1; then
        tail -n 50 "$INSIDE/log" >&2
        echo "$suite: failed: $words" >&2
        exit 1
    fi
    echo "==> $suite: $words"
}

# Functions that run() calls: `set -e` has no effect in them.
bootstrap() { # a second time if the mirror fails
    https=""
    case $MIRROR in https:*) https=,ca-certificates ;; esac
    for _ in 1 2; do
        rm -rf "$root"
        debootstrap --variant=minbase --include="git,make$https" "$suite" "$root" "$MIRROR" && return 0
    done
    return 1
}

refuses() {
    dpkg-query --root="$root" -W >"$INSIDE/before"
    if enter "$root" root make >"$INSIDE/refusal" 2>&1; then
        echo "make should have said what is missing"
        return 1
    fi
    dpkg-query --root="$root" -W >"$INSIDE/after"
    cmp "$INSIDE/before" "$INSIDE/after" && grep "make deps" "$INSIDE/refusal"
}

install_package() {
    enter "$root" root "make package" &&
        cp "$root"/root/cairn/build/cairn_*.deb "$second/root/cairn.deb" &&
        enter "$second" root "apt-get update" &&
        enter "$second" root "apt-get install -y --no-install-recommends /root/cairn.deb" &&
        enter "$second" root "cairn plan resnet50 --batch 64 --budget 3GiB" | grep "resnet50, batch" &&
        enter "$second" root "test -s /usr/include/cairn.h" &&
        enter "$second" root "test -s /usr/share/man/man1/cairn.1" &&
        enter "$second" root "test -s /usr/share/bash-completion/completions/cairn"
}

# show COMMAND: run it as root, with its output; a copy is kept for the summary.
show() {
    echo "==> $suite, as root: $1"
    { enter "$root" root "$1" 2>&1 || touch "$INSIDE/failed"; } | tee "$INSIDE/last"
    [ ! -e "$INSIDE/failed" ]
}

inside() {
    suite=${1:-bookworm}
    [ $# -eq 0 ] || shift
    [ $# -gt 0 ] || set -- "make demo" "make check"
    root=$INSIDE/root
    second=$INSIDE/second
    run "made from $(date +%F)'s packages" bootstrap
    chroot "$root" apt-get clean
    cp -a "$root" "$second"
    prepare "$root"
    prepare "$second"
    clone "$root" /root
    run "make names what is missing" refuses
    for command; do
        show "$command"
    done
    chroot "$root" useradd --create-home newcomer
    clone "$root" /home/newcomer
    chroot "$root" chown -R newcomer: /home/newcomer
    run "make, as an ordinary user" enter "$root" newcomer make
    run "make package, installed in a second bare machine" install_package
    sed -n '/tests passed/,/Total Test time/p' "$INSIDE/last" | tail -n 12
}

if [ -n "${INSIDE:-}" ]; then
    inside "$@"
else
    outside "$@"
fi
