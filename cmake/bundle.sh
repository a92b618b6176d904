#!/usr/bin/env bash
# Packs what cmake/bundle.cmake lists; the target `bundle` calls it: cmake/bundle.sh CMAKE BUILD_FOLDER VERSION [--try]
# The archive is a plain tar, which any system unpacks. It holds bench/, whose scripts unpack the rest: programs.tar.xz, with the xz
# beside it, since a bare system has none. That xz needs glibc alone, as the programs do.
# --try packs nothing: it puts the bundle together, and its ranks start.
set -euo pipefail
cmake=$1 build=$2 version=$3
source=$(cd "$(dirname "$0")/.." && pwd)
name=strata-bundle-$version
stage=$build/bundle/$name
archive=$build/$name.tar
window=256MiB  # the programs have most of their code in common
largest_mib=40

# What starts ranks: Open MPI's mpirun, and those of its plugins, and PMIx's, that need nothing else. bench/gpu.sh names their
# folders to them, since they have Debian's built in.
copy_launcher() {
  local libraries=/usr/lib/x86_64-linux-gnu plugin
  mkdir -p "$stage/launcher" "$stage/lib/openmpi" "$stage/lib/pmix" "$stage/share/openmpi"
  cp -L "$(command -v mpirun)" "$stage/launcher/mpirun"
  cp -L "$libraries"/lib{pmix,munge}.so.2 "$stage/lib/"
  cp -L "$libraries"/pmix2/lib/pmix/*.so "$stage/lib/pmix/"
  cp -L "$libraries"/libmca_common_{monitoring,ompio,sm}.so.[0-9][0-9] "$stage/lib/"
  for plugin in "$libraries"/openmpi/lib/openmpi3/*.so; do
    readelf -d "$plugin" | grep -qE 'NEEDED.*(shmem|ucp|ucs|_ofi|fabric|verbs|psm|nl-3)' || cp -L "$plugin" "$stage/lib/openmpi/"
  done
  cp /usr/share/openmpi/*.txt "$stage/share/openmpi/"
}

copy_xz() {
  mkdir -p "$stage/xz"
  cp -L "$(command -v xz)" "$(ldd "$(command -v xz)" | awk '/liblzma/ { print $3 }')" "$stage/xz/"
}

# A library that has a path of its own does not look where the program that loads it does.
forget_paths() {
  local file
  for file in "$stage"/launcher/* "$stage"/lib/*.so* "$stage"/lib/*/*.so; do
    [ -L "$file" ] || printf 'file(RPATH_REMOVE FILE "%s")\n' "$file"
  done >"$build/bundle/forget_paths.cmake"
  chmod -R u+w "$stage"
  "$cmake" -P "$build/bundle/forget_paths.cmake" 2>&1 | { grep -v "Removed runtime path" >&2 || true; }
  rm "$build/bundle/forget_paths.cmake"
}

# The licences of the shared libraries, of what starts ranks, of xz, and of what the programs have compiled in.
copy_licences() {
  local programs=("$stage"/bin/*)
  python3 -B "$source/cmake/third_party.py" licences "$stage/licences" --build "$build" --targets "${programs[@]##*/}" \
    --copies "$stage/lib" "$stage/xz" --files "$(command -v mpirun)" /usr/share/openmpi/*.txt "$(command -v xz)"
}

# Every file that a page of the bundle links to is in the bundle.
check_links() {
  local page link dead=0
  while IFS=: read -r page link; do
    if [ ! -e "$stage/$(dirname "$page")/${link%%#*}" ]; then
      printf '%s links to %s, which is not in the bundle\n' "$page" "$link" >&2
      dead=1
    fi
  done < <(cd "$stage" && grep -rHoP --include='*.md' '\]\(\K(?![a-z]+:|#)[^)\s]+' .)
  return "$dead"
}

# Every library that a program of the bundle finds lies in the bundle, or belongs to glibc or CUDA.
check_libraries() {
  local program path foreign
  for program in "$stage"/bin/* "$stage"/launcher/* "$stage"/lib/*/*.so "$stage/xz/xz"; do
    path=$stage/lib  # so bench/gpu.sh says for what starts ranks
    [[ $program != */bin/* ]] || path=
    [[ $program != */xz/* ]] || path=$stage/xz
    foreign=$(env -i PATH="$PATH" LD_LIBRARY_PATH="$path" ldd "$program" | awk -v own="$stage/" '
      /linux-vdso|ld-linux/ || index($3, own) == 1 { next }
      $1 ~ /^lib(c|m|mvec|dl|pthread|rt|resolv|util)\.so/ { next }
      $1 ~ /^lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nvrtc|nvJitLink)\.so/ { next }
      { print $1, $3 }')
    if [ -n "$foreign" ]; then
      printf '%s needs what is not in the bundle: %s\n' "$program" "$foreign" >&2
      return 1
    fi
  done
}

pack() { tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner -cf - "${@:2}"; } # FOLDER NAME...

rm -rf "$build/bundle" "$archive"
"$cmake" --install "$build" --component bundle --strip --prefix "$stage" >/dev/null
commit=$(git -C "$source" describe --always --dirty 2>/dev/null || echo 'no commit')
echo "$version ($commit)" >"$stage/VERSION"
copy_launcher
copy_xz
forget_paths
copy_licences
check_libraries
check_links
if [ "${4-}" = --try ]; then
  PART_SECONDS=25 "$stage/bench/gpu.sh" --dry ranks
  rm -rf "$build/bundle"
  exit
fi
for program in "$build"/bundled/*; do  # with kernels for every GPU
  [ ! -x "$program" ] || strip -o "$stage/bin/$(basename "$program")" "$program"
done
packed=(bin lib launcher share licences docs examples tests)
pack "$stage" "${packed[@]}" | xz --x86 --lzma2=preset=9e,dict="$window" >"$build/bundle/programs.tar.xz"
(cd "$stage" && rm -r "${packed[@]}")
mv "$build/bundle/programs.tar.xz" "$stage/"
pack "$build/bundle" "$name" >"$archive"
rm -rf "$build/bundle"
mib=$(($(stat -c %s "$archive") / 1048576))
if [ "$mib" -ge "$largest_mib" ]; then
  echo "$archive has $mib MiB; it should stay under $largest_mib" >&2
  exit 1
fi
echo "$archive: $mib MiB"
