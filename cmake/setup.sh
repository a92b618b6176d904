# shellcheck shell=bash
# Sourced by run.sh, test.sh and the Dockerfiles: installs missing Debian packages and builds the release preset into build/.
# Needs the network only where a package is missing. Says little unless something fails.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

missing_packages() { # LIST...
  local wanted installed package
  mapfile -t wanted < <(cat "$@" | grep -v '^#')
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null) || true  # it fails if one is unknown
  for package in "${wanted[@]}"; do
    [[ $'\n'$installed$'\n' == *$'\n'"$package installed"$'\n'* ]] || printf '%s ' "$package"
  done
}

# tell_progress MESSAGE_COMMAND COMMAND...: runs COMMAND, and every 30 seconds says what MESSAGE_COMMAND prints, if anything.
tell_progress() {
  local message=$1 line status=0 teller
  shift
  # The sleep must not hold the caller's output open: it may outlive all this by half a minute.
  while sleep 30 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    line=$($message 2>/dev/null) || true
    [ -z "$line" ] || say "$line"
  done &
  teller=$!
  "$@" || status=$?
  kill "$teller" 2>/dev/null || true
  wait "$teller" 2>/dev/null || true
  return "$status"
}

log_to() { # FILE COMMAND...
  local file=$1
  shift
  "$@" >"$file" 2>&1
}

# Runs a command and keeps its output back. Now and then the last line is shown, and all of it if the command fails.
quietly() {
  local log status=0
  log=$(mktemp)
  tell_progress "tail -n 1 $log" log_to "$log" "$@" || status=$?
  [ "$status" -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

install_packages() { # LIST...
  if ! command -v dpkg-query >/dev/null; then
    say "This is not Debian: install what cmake/packages.txt lists if CMake misses something."
    return
  fi
  local missing as_root=(env DEBIAN_FRONTEND=noninteractive)
  missing=$(missing_packages "$@")
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
  [ ! -f "$folder/LICENSE" ] || return 0
  has_cuda_toolkit || return 0
  download=$(mktemp -d)
  {
    python3 -m pip download --no-deps --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 \
      --platform manylinux_2_28_x86_64 --dest "$download" "nvidia-cudnn-frontend==$version" &&
      echo "$sha256 $(echo "$download"/*.whl)" | sha256sum --check &&
      python3 -m zipfile -e "$download"/*.whl "$download" &&
      rm -rf "$folder" && mkdir -p "$folder" && mv "$download/include" "$folder/" &&
      cat "$download"/*.dist-info/licenses/* >"$folder/LICENSE"
  } >"$download/log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || say "Without cuDNN's frontend, attention on CUDA is slower: $(tail -n 1 "$download/log")"
  rm -rf "$download"
}

# install_python NAME LIST TEST: the list's packages of PyPI, in a Python environment of their own in .deps/NAME.
install_python() {
  local folder=$root/.deps/$1 list=$root/$2
  ! cmp --silent "$list" "$folder/requirements.txt" || return 0
  say "Installing $2 into .deps/$1"
  rm -rf "$folder"
  if quietly python3 -m venv "$folder" &&
    quietly "$folder/bin/pip" install --disable-pip-version-check --no-deps --only-binary :all: --requirement "$list"; then
    cp "$list" "$folder/"
  else
    say "Without them the test $3 fails"
  fi
}

# The readers of other people that tests read Strata's files with, 23 MB, and what makes the documentation's site, 5 MB.
install_readers() {
  install_python readers tests/readers/requirements.txt readers
  install_python site tests/docs/requirements.txt docs.site
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

has_nvidia_driver() { [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ]; }
has_cuda_toolkit() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# Which CUDA the build/ folder has been configured with; empty if it has not been.
configured_cuda() { sed -n 's/^STRATA_CUDA:[A-Z]*=//p' "$root/build/CMakeCache.txt" 2>/dev/null || true; }

# build TARGET [option of CMake...]
build() {
  local target=$1
  shift
  install_packages "$root/cmake/packages.txt"
  case "$*$(configured_cuda)" in
    -DSTRATA_CUDA=DRIVER* | DRIVER) ! has_nvidia_driver || fetch_cudnn_frontend ;;
    *) fetch_cudnn_frontend ;;
  esac
  (
    cd "$root" || return
    [ -f build/build.ninja ] || say "Building into build/; the first time takes some minutes"
    quietly cmake --preset release "$@"
    if [ -t 2 ]; then
      cmake --build --preset release --parallel "$(parallel_jobs)" --target "$target" >&2
    else
      quietly cmake --build --preset release --parallel "$(parallel_jobs)" --target "$target"
    fi
  )
}
