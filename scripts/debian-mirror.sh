#!/bin/sh
# debian-mirror.sh: print the address of the first mirror of this machine's own release, without its
# security and update suites. Prints nothing if the apt set-up names none.
set -eu
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016 # apt's own placeholders
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v suite="$codename" '$2 == suite && $3 == "main" { print $1; exit }'
