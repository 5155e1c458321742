#include "coordinator/effects/site_evaluations.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::string_view kTestPrefix = "test_", kTestExamples = "test_examples";

double ExamplesOf(const EvaluationRecord& record, absl::string_view metric) {
  if (absl::StartsWith(metric, kTestPrefix)) {
    for (const NamedValue& value : record.metrics) {
      if (value.name == kTestExamples) return std::max(1.0, value.value);
    }
  }
  return static_cast<double>(std::max<int64_t>(1, record.tokens));
}

bool IsLoss(absl::string_view metric) { return absl::EndsWith(metric, "loss"); }

}  // namespace

CombinedEvaluation Combine(const std::map<std::string, EvaluationRecord>& of_pools) {
  struct Sums {
    double sum = 0, weight = 0, plain = 0, worst = 0;
    int pools = 0;
  };
  // In the order of the first pool that has a metric.
  std::vector<std::string> names;
  std::map<std::string, Sums> by_name;
  CombinedEvaluation combined;
  double loss = 0;
  for (const auto& [pool, record] : of_pools) {
    combined.examples += record.tokens;
    loss += record.loss * ExamplesOf(record, "loss");
    for (const NamedValue& metric : record.metrics) {
      const auto [found, added] = by_name.try_emplace(metric.name);
      if (added) names.push_back(metric.name);
      Sums& sums = found->second;
      const double weight = ExamplesOf(record, metric.name);
      sums.sum += metric.value * weight;
      sums.weight += weight;
      sums.plain += metric.value;
      const bool worse =
          IsLoss(metric.name) ? metric.value > sums.worst : metric.value < sums.worst;
      if (sums.pools++ == 0 || worse) sums.worst = metric.value;
    }
  }
  double weight = 0;
  for (const auto& [pool, record] : of_pools) weight += ExamplesOf(record, "loss");
  combined.loss = loss / weight;
  for (const std::string& name : names) {
    const Sums& sums = by_name[name];
    if (name == kTestExamples) {
      combined.over_examples.push_back({name, sums.plain});
      continue;
    }
    combined.over_examples.push_back({name, sums.sum / sums.weight});
    combined.worst_pool.push_back({name, sums.worst});
    combined.mean_of_pools.push_back({name, sums.plain / sums.pools});
  }
  return combined;
}

}  // namespace longhaul::coordinator
