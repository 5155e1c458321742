#include "worker/lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace longhaul {

int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options,
                    double uniform) {
  const auto most = std::max_element(logits.begin(), logits.end());
  if (options.temperature <= 0) return most - logits.begin();
  std::vector<double> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    weights[i] = std::exp((double{logits[i]} - double{*most}) / options.temperature);
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  if (options.top_p < 1) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return weights[a] > weights[b]; });
    double kept = 0;
    size_t count = 0;
    while (count < order.size() && (count == 0 || kept < options.top_p * total))
      kept += weights[order[count++]];
    order.resize(count);
    total = kept;
  }
  double left = uniform * total;
  for (const int64_t token : order) {
    left -= weights[token];
    if (left < 0) return token;
  }
  return order.back();  // Of rounding.
}

}  // namespace longhaul
