// Evaluations of the same outer parameters by several pools, each on data of its own, as one. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/named_value.h"
#include "coordinator/store/meta_records.h"

namespace longhaul::coordinator {

struct CombinedEvaluation {
  // Means over the examples of all pools. What does not follow from sums over examples (macro_f1)
  // is the mean of the pools' own values by the same weights. "test_examples" is the sum.
  std::vector<NamedValue> over_examples;
  // The largest loss, and the smallest value of every other metric; the mean over pools.
  std::vector<NamedValue> worst_pool, mean_of_pools;
  double loss = 0;
  int64_t examples = 0;
};

// By pool; at least one. A metric that only some report is combined over those.
CombinedEvaluation Combine(const std::map<std::string, EvaluationRecord>& of_pools);

}  // namespace longhaul::coordinator
