#!/usr/bin/env bash
# longhaul-rank, whose pushes are held to RANK_BYTES_PER_SECOND instead of what its agent says.
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  [ "${arguments[i]}" = --push-bytes-per-second ] && arguments[i + 1]=$RANK_BYTES_PER_SECOND
done
exec "$RANK_PROGRAM" "${arguments[@]}"
