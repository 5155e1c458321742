// Published numbers of common machines, for forecasts without measurements.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace longhaul::plan {

inline constexpr double kGiB = 1 << 30;

// Of one device. GPUs: the vendors' data sheets, dense matrix products; of the MI250X one of its
// two dies, with the links of the OLCF Frontier guide.
struct Machine {
  const char* name;
  // GPUs of a node as it is usually sold.
  int ranks;
  // 10^12 operations per second, in bf16 and in float32 (TF32 where the vendor has it).
  double peak_bf16, peak_float32;
  double memory_gib, memory_gb_per_second;
  // GB/s into one rank.
  double pair, node, pool;
};

// Null: there is no such machine. "cpu" is one, without rates: they go by its cores.
const Machine* FindMachine(absl::string_view name);
// "a100-40g, a100-80g, ..." for messages.
std::string MachineNames();

}  // namespace longhaul::plan
