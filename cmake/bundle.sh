#!/usr/bin/env bash
# Packs what cmake/bundle.cmake lists; the target `bundle` calls it: cmake/bundle.sh CMAKE BUILD_FOLDER VERSION
set -euo pipefail
cmake=$1 build=$2 version=$3
source=$(cd "$(dirname "$0")/.." && pwd)
name=strata-bundle-$version
stage=$build/bundle/$name
archive=$build/$name.tar.gz
largest_mib=60

# The licences of the libraries, as Debian's packages have them, and of what the programs have compiled in.
copy_licences() {
  local file package
  mkdir -p "$stage/licences"
  {
    printf '%s\n' nlohmann-json3-dev libcli11-dev libxxhash-dev libgtest-dev
    for file in "$stage"/lib/*; do
      [ -L "$file" ] || dpkg-query -S "*-linux-gnu/$(basename "$file")" 2>/dev/null | head -n 1 | cut -d : -f 1
    done
  } | while read -r package; do
    file=/usr/share/doc/$package/copyright
    [ ! -f "$file" ] || cp "$file" "$stage/licences/$package"
  done
}

# Every library that a program of the bundle finds lies in the bundle, or belongs to glibc or CUDA.
check_libraries() {
  local program foreign
  for program in "$stage"/bin/*; do
    foreign=$(env -i PATH="$PATH" ldd "$program" | awk -v own="$stage/" '
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

rm -rf "$build/bundle" "$archive"
"$cmake" --install "$build" --component bundle --strip --prefix "$stage" >/dev/null
commit=$(git -C "$source" describe --always --dirty 2>/dev/null || echo 'no commit')
echo "$version ($commit)" >"$stage/VERSION"
copy_licences
check_libraries
tar -C "$build/bundle" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9 -n >"$archive"
rm -rf "$build/bundle"
mib=$(($(stat -c %s "$archive") / 1048576))
if [ "$mib" -ge "$largest_mib" ]; then
  echo "$archive has $mib MiB; it should stay under $largest_mib" >&2
  exit 1
fi
echo "$archive: $mib MiB"
