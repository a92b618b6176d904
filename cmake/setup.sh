# shellcheck shell=bash
# Sourced by run.sh and test.sh: installs missing Debian packages and builds the release preset into build/.
# Needs the network only where a package is missing. Says little unless something fails.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

missing_packages() {
  local package
  while read -r package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
  done < <(grep -v '^#' "$root/cmake/packages.txt")
}

# Runs a command with its output kept back; shows it only where the command fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "This is not Debian: install what cmake/packages.txt lists if CMake misses something."
    return
  fi
  local missing as_root=(env DEBIAN_FRONTEND=noninteractive)
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "Packages are missing and there is no sudo: as root, run apt-get install $missing"
      return 1
    fi
    as_root=(sudo "${as_root[@]}")
  fi
  say "Installing $missing"
  quietly "${as_root[@]}" apt-get update
  # shellcheck disable=SC2086  # one word per package
  quietly "${as_root[@]}" apt-get install --yes --no-install-recommends $missing
}

# As many compilers as there are cores, and 1.5 GiB of free memory for each.
parallel_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable:/ { print int($2 / (1.5 * 1024 * 1024)) }' /proc/meminfo)
  local count
  count=$(nproc)
  [ "${by_memory:-1}" -ge "$count" ] || count=${by_memory:-1}
  [ "$count" -ge 1 ] || count=1
  echo "$count"
}

# build TARGET
build() {
  install_packages
  (
    cd "$root" || return
    [ -f build/build.ninja ] || say "Building into build/; the first time takes some minutes"
    quietly cmake --preset release
    if [ -t 2 ]; then
      cmake --build --preset release --parallel "$(parallel_jobs)" --target "$1" >&2
    else
      quietly cmake --build --preset release --parallel "$(parallel_jobs)" --target "$1"
    fi
  )
}
