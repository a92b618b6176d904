#!/usr/bin/env bash
# Checks the form of the tree, which takes under two minutes on two cores:
# - clang-format over all sources, shellcheck over all scripts;
# - sentences of pages and comments, and whether what pages name exists;
# - includes against CMake targets and layers, names that two files define, and that passes ask operators and know none;
# - clang-tidy over changed files.
#   cmake/check_form.sh [BASE | --all]   changed since BASE (a commit; default: origin's main if HEAD has left it, else the commit before)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
largest_change=24  # files that clang-tidy looks at: 5 s of a core each
failed=0

fail() {
  printf '%s\n' "$*" >&2
  failed=1
}

changed_since() {
  local base=$1
  if [ -z "$base" ]; then
    base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
    [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse --quiet --verify HEAD~1 || true)
  fi
  if [ -n "$base" ]; then
    git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp'
  fi
  git ls-files --others --exclude-standard -- '*.h' '*.cpp'
}

mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')
while read -r file; do
  fail "$file is not in the form of .clang-format: run clang-format -i $file"
done < <(for file in "${sources[@]}"; do [ ! -f "$file" ] || printf '%s\n' "$file"; done |
  xargs -P "$(nproc)" -n 40 clang-format --dry-run 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: warning:.*/\1/p' | sort -u)

mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
shellcheck -x "${scripts[@]}" >&2 || fail "shellcheck found the above: mend it"

python3 cmake/check_prose.py >&2 || fail "Sentences are not as cmake/check_prose.py asks: mend those above"

python3 cmake/check_docs.py >&2 || fail "Pages name what does not exist: mend what stands above"

python3 cmake/check_includes.py >&2 || fail "Includes, CMake targets and layers differ as said above"

python3 cmake/check_names.py >&2 || fail "One name has several types, which no linker finds"

python3 cmake/check_operators.py >&2 || fail "A pass knows an operator: let it ask as said above"

case ${1-} in
  --all) mapfile -t chosen < <(printf '%s\n' "${sources[@]}") && limit=0 ;;
  *) mapfile -t chosen < <(changed_since "${1-}") && limit=$largest_change ;;
esac
python3 cmake/check_tidy.py --limit "$limit" "${chosen[@]}" >&2 || fail "clang-tidy or the compiler found the above: mend it"

[ "$failed" -ne 0 ] || echo "The form is right: ${#sources[@]} sources, ${#scripts[@]} scripts"
exit "$failed"
