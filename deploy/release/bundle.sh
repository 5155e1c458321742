#!/usr/bin/env bash
# Copies the libraries of Debian that the programs load, and their licences, below a prefix: for other distributions. The libraries of
# the C and C++ compilers are not among them: they must not be older than the machine's own, which its drivers load.
#   bundle.sh BIN PREFIX      the programs of the build; libraries go to PREFIX/lib/longhaul, licences to PREFIX/share/doc/longhaul/libraries
set -euo pipefail
bin=$1 prefix=$2
OF_EVERY_SYSTEM='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libutil|libresolv|libstdc\+\+|libgcc_s)\.so'
# Of libtorch's wheel: they have a rule of their own (install.cmake).
OF_WHEELS='/site-packages/'
mkdir -p "$prefix/lib/longhaul" "$prefix/share/doc/longhaul/libraries"
list=$prefix/share/doc/longhaul/libraries/LIBRARIES
programs=()
for program in longhaul longhaul-coordinator longhaul-sentencepiece longhaul-worker longhaul-rank longhaul-lm; do
  [ ! -x "$bin/$program" ] || programs+=("$bin/$program")
done
ldd "${programs[@]}" | awk '$2 == "=>" {print $1, $3}' | LC_ALL=C sort -u | while read -r name path; do
  [[ ! $name =~ $OF_EVERY_SYSTEM && ! $path =~ $OF_WHEELS ]] || continue
  [ -e "$path" ] || { echo "$name is not found" >&2; exit 1; }
  real=$(realpath "$path")
  install -m 644 "$real" "$prefix/lib/longhaul/$name"
  # dpkg knows paths from before /lib was a link to /usr/lib.
  package=$( { dpkg-query -S "$real" || dpkg-query -S "${real#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1)
  [ -n "$package" ] || { echo "$path is of no Debian package" >&2; exit 1; }
  install -D -m 644 "/usr/share/doc/$package/copyright" "$prefix/share/doc/longhaul/libraries/$package.copyright"
  # shellcheck disable=SC2016
  dpkg-query -W -f "$name "'${binary:Package} ${Version} ${source:Package} ${source:Version}\n' "$package"
done > "$list"
