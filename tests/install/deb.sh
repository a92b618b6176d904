#!/usr/bin/env bash
# Tries the Debian package in a clean Debian: tests/install/deb.sh PACKAGE.deb [STEPS]
# As root, with debootstrap, lintian and the network. It installs the package into a new root, trains the quickstart for STEPS
# steps (20) as an ordinary user, reads the manual, and removes the package. Then the root must have the files that it had before.
# Not a part of .ci/run, since it needs root and some minutes. DEBIAN_MIRROR names another mirror, DEBIAN_SUITE another release.
set -euo pipefail
package=$(realpath "$1")
steps=${2:-20}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=${DEBIAN_SUITE:-bookworm}
work=$(mktemp -d)
root=$work/root
trap 'umount -q "$root/proc" "$root/sys" || true; rm -rf --one-file-system "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
as_user() { inside su --login --command "$*" user; }
# What package managers themselves write is left out: databases, lists, logs, and the caches that their triggers make. /run is empty
# after a boot.
files() {
  local folder prune=()
  for folder in proc sys dev run home tmp var/cache var/lib/dpkg var/lib/apt var/log etc/ld.so.cache; do
    prune+=(-path "$root/$folder" -prune -o)
  done
  find "$root" -xdev "${prune[@]}" -printf '%P %y\n' | sort
}

say "lintian"
lintian --fail-on error,warning --info "$package"
echo "lintian has no errors and no warnings"

say "a clean $suite"
debootstrap --variant=minbase --include=man-db,bash-completion,zsh,fish "$suite" "$root" "$mirror" >"$work/debootstrap.log" ||
  { tail -n 20 "$work/debootstrap.log"; exit 1; }
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
cp /etc/resolv.conf "$root/etc/resolv.conf"
inside apt-get update --quiet=2
inside useradd --create-home --shell /bin/bash user
files >"$work/before"

say "apt install ./$(basename "$package")"
cp "$package" "$root/tmp/"
inside apt-get install --quiet=2 --yes "/tmp/$(basename "$package")" >"$work/install.log" 2>&1 || { tail -n 20 "$work/install.log"; exit 1; }
inside dpkg --status strata | tee "$work/status"
if grep -q -i -E '^Depends:.*(cuda|cublas|cudnn|nvidia)' "$work/status"; then
  echo "the package depends on CUDA"
  exit 1
fi

say "strata --version, as a user"
as_user strata --version

say "man strata"
as_user MANWIDTH=80 man --pager=cat --warnings strata >"$work/man" 2>"$work/man.errors"
head -n 24 "$work/man"
[ ! -s "$work/man.errors" ] || { cat "$work/man.errors"; exit 1; }

say "completions of bash, zsh and fish"
as_user 'source /usr/share/bash-completion/bash_completion; _completion_loader strata || true; complete -p strata'
inside zsh -n /usr/share/zsh/vendor-completions/_strata
as_user "zsh -f -c 'autoload -U compinit; compinit -u; [ \"\$_comps[strata]\" = _strata ] && echo zsh completes strata'"
as_user "fish -c 'complete -C \"strata train --set train.st\"'" | grep '^train.steps='

say "the quickstart, $steps steps"
as_user "strata train /usr/share/strata/examples/quickstart.yaml --set train.steps=$steps --set train.validate_every=$steps"
as_user "strata generate out/quickstart --tokenizer bytes --prompt 'It is a truth' --max-tokens 20"

say "apt purge strata"
inside apt-get purge --quiet=2 --yes strata >"$work/purge.log" 2>&1
inside apt-get autoremove --purge --quiet=2 --yes >>"$work/purge.log" 2>&1
files >"$work/after"
diff "$work/before" "$work/after"
echo "the root has the files that it had; what the user made is the user's:"
(cd "$root/home/user" && find . -type f -printf '%p %s bytes\n')
