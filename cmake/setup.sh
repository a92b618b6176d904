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

# The headers of cuDNN's frontend, which no Debian package has: from an x86-64 wheel, but headers serve every machine.
# Builds without CUDA do not need them, and builds with CUDA do without.
fetch_cudnn_frontend() {
  local version=1.32.0 sha256=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
  local folder=$root/.deps/cudnn-frontend download status=0
  [ ! -d "$folder/include" ] || return 0
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 0
  download=$(mktemp -d)
  {
    python3 -m pip download --no-deps --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 \
      --platform manylinux_2_28_x86_64 --dest "$download" "nvidia-cudnn-frontend==$version" &&
      echo "$sha256 $(echo "$download"/*.whl)" | sha256sum --check &&
      python3 -m zipfile -e "$download"/*.whl "$download" &&
      mkdir -p "$folder" && mv "$download/include" "$folder/"
  } >"$download/log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || say "Without cuDNN's frontend, attention on CUDA is slower: $(tail -n 1 "$download/log")"
  rm -rf "$download"
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
  fetch_cudnn_frontend
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
