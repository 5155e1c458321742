#!/bin/sh
# Writes what Debian requires of a package beside its files: a changelog of one entry, of the time SOURCE_DATE_EPOCH, and a manual page
# of each program, from its help.
#   documents.sh PACKAGE VERSION PREFIX PROGRAM...
set -eu
package=$1 version=$2 prefix=$3
shift 3
time=${SOURCE_DATE_EPOCH:-$(date +%s)}
mkdir -p "$prefix/share/doc/$package" "$prefix/share/man/man1"
{
  printf '%s (%s) bookworm; urgency=medium\n\n' "$package" "$version"
  printf '  * The changes of each version are in CHANGELOG.md of the sources.\n\n'
  printf ' -- The Longhaul authors <longhaul@localhost>  %s\n' "$(LC_ALL=C date -u -R -d "@$time")"
} | gzip -9n > "$prefix/share/doc/$package/changelog.gz"
for program; do
  name=$(basename "$program")
  {
    printf '.TH "%s" 1 "%s" "%s"\n.SH NAME\n%s \\- part of Longhaul, which trains one model on several sites\n.SH HELP\n.nf\n' \
      "$name" "$(date -u -d "@$time" +%Y-%m-%d)" "longhaul $version" "$name"
    case $name in
      longhaul-sentencepiece) echo "Started by the other programs, for tokenizers of SentencePiece; it has no flags." ;;
      *) "$program" --help ;;
    esac | sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    printf '.fi\n'
  } | gzip -9n > "$prefix/share/man/man1/$name.1.gz"
done
