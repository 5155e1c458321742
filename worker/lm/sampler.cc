#include "worker/lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace longhaul {
namespace {

constexpr size_t kSortedAtOnce = 64;

}  // namespace

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
    const auto before = [&](int64_t a, int64_t b) {
      return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
    };
    double kept = 0;
    size_t count = 0;
    // Few tokens have most of the probability, usually: so many are sorted as are wanted.
    for (size_t sorted = 0; count == sorted && count < order.size();) {
      const size_t from = sorted;
      sorted = std::min(order.size(), std::max(kSortedAtOnce, 8 * from));
      std::partial_sort(order.begin() + from, order.begin() + sorted, order.end(), before);
      while (count < sorted && (count == 0 || kept < options.top_p * total))
        kept += weights[order[count++]];
    }
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
