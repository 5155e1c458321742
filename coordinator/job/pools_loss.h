// The mean loss over the examples of several pools, as their evaluations come in. A value; not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace longhaul {

class PoolsLoss {
 public:
  // Of which evaluation a report is: the step, and whether it is the final one. Later ones are
  // greater.
  using Key = std::pair<int64_t, bool>;

  // Takes the report of a pool, and returns the mean of all reports with this key. One with a key
  // before the newest is its own mean.
  double Add(Key key, double loss, int64_t examples) {
    if (key < newest_) return loss;
    if (key > newest_) *this = PoolsLoss{key};
    const auto weight = static_cast<double>(std::max<int64_t>(1, examples));
    sum_ += loss * weight;
    weight_ += weight;
    return sum_ / weight_;
  }

  PoolsLoss() = default;

 private:
  explicit PoolsLoss(Key key) : newest_(key) {}

  Key newest_ = {-1, false};
  double sum_ = 0, weight_ = 0;
};

}  // namespace longhaul
