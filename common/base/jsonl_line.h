// How long a line of JSONL may be, in MiB: a line is held whole in memory. It is named by
// data.jsonl.line_mib_max of job.proto and by --line-mib-max. deploy/python/longhaul/documents.py
// has the same numbers.
#pragma once

namespace longhaul {

inline constexpr int kLineMibDefault = 64;
// What a user may ask for.
inline constexpr int kLineMibMax = 256;

}  // namespace longhaul
