#!/usr/bin/env bash
# Compares Strata with torch.compile, FSDP2 and DeepSpeed ZeRO-3 with offload, on the CPU: step time and peak memory on one
# and two ranks. The options are those of bench/peers.py: bench/peers.sh --help
# The first call makes a Python environment in .deps/peers from bench/peers-requirements.txt. PYTHON=FILE takes that Python
# instead. DeepSpeed compiles its CPUAdam when it first runs, which takes a minute; if it is killed meanwhile, delete
# .deps/peers/extensions, where its lock would stay.
# Needs build/strata, python3-venv, g++ and mpirun, and the network for the first call.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
list=$root/bench/peers-requirements.txt
environment=$root/.deps/peers
cpu_wheels=https://download.pytorch.org/whl/cpu

for argument; do
  case $argument in
    -h | --help) exec python3 "$root/bench/peers.py" --help ;;
  esac
done
if [ -z "${PYTHON:-}" ]; then
  PYTHON=$environment/bin/python
  if ! cmp --silent "$list" "$environment/requirements.txt"; then
    echo "Installing bench/peers-requirements.txt into .deps/peers" >&2
    rm -rf "$environment"
    python3 -m venv "$environment"
    index=(--extra-index-url "$cpu_wheels")
    python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=10)' "$cpu_wheels/torch/" 2>/dev/null || {
      echo "$cpu_wheels cannot be reached: PyPI's PyTorch brings CUDA's libraries, some 6 GB" >&2
      index=()
    }
    DS_BUILD_OPS=0 "$environment/bin/pip" install --quiet --disable-pip-version-check "${index[@]}" --requirement "$list"
    cp "$list" "$environment/requirements.txt"
  fi
fi
exec "$PYTHON" "$root/bench/peers.py" "$@"
