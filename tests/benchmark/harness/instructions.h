// Holds Highway's kernels of this process to an instruction set; instructions.py holds libraries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hwy/targets.h"

namespace longhaul::benchmark {

struct InstructionSet {
  std::string name;
  int64_t target;
};

// Those of this CPU, the least first.
inline std::vector<InstructionSet> InstructionSets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet& set : std::vector<InstructionSet>{
           {"ssse3", HWY_SSSE3}, {"avx2", HWY_AVX2}, {"avx512", HWY_AVX3}}) {
    if ((hwy::SupportedTargets() & set.target) != 0) sets.push_back(set);
  }
  return sets;
}

// Call it before the first kernel runs. False: the CPU does not have the set.
inline bool UseInstructions(const std::string& name) {
  for (const InstructionSet& set : InstructionSets()) {
    if (set.name != name) continue;
    // The bits below are those of better sets.
    hwy::DisableTargets(set.target - 1);
    return true;
  }
  return false;
}

}  // namespace longhaul::benchmark
