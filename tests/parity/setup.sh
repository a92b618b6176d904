#!/usr/bin/env bash
# Makes .venv in the repository's root with what the parity scripts and bench/*.py import. Building, testing and training
# strata need none of it. Needs python3-venv and the network.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --requirement tests/parity/requirements.txt
