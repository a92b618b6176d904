#!/usr/bin/env bash
# Makes the documentation's site of docs/ in FOLDER, and fails at a link that leads nowhere: tests/docs/site.sh FOLDER
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdocs=$root/.deps/site/bin/mkdocs
if [ ! -x "$mkdocs" ]; then
  echo "MkDocs is not installed: run ./test.sh with a network once, which installs it into .deps/site"
  exit 1
fi
export PYTHONDONTWRITEBYTECODE=1
# Not by --quiet, with which warnings are no failures.
"$mkdocs" build --strict --clean --config-file "$root/mkdocs.yml" --site-dir "$1" 2>&1 | { grep -v '^INFO' || true; }
