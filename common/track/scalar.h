// Numbers of a training run by step, as trackers of experiments take them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

struct Scalar {
  std::string tag;  // As "train/loss": TensorBoard groups by what is before the first slash.
  double value = 0;
};

// The newest steps that a file holds of each tag: what comes again after a restart is not written again.
// Steps may come somewhat out of order, as pools report their turns.
class LastSteps {
 public:
  bool Takes(absl::string_view tag, int64_t step) const {
    const auto found = tags_.find(tag);
    if (found == tags_.end()) return true;
    const Steps& steps = found->second;
    return step > steps.all_until &&
           !std::binary_search(steps.newest.begin(), steps.newest.end(), step);
  }
  void Took(absl::string_view tag, int64_t step) {
    if (!Takes(tag, step) || (tags_.size() >= kTagsMax && !tags_.contains(tag))) return;
    Steps& steps = tags_[std::string(tag)];
    steps.newest.insert(std::upper_bound(steps.newest.begin(), steps.newest.end(), step), step);
    if (steps.newest.size() <= kNewest) return;
    steps.all_until = steps.newest.front();
    steps.newest.erase(steps.newest.begin());
  }
  // What was written of `step` and later ones is void.
  void Rewind(int64_t step) {
    for (auto& [tag, steps] : tags_) {
      std::erase_if(steps.newest, [step](int64_t one) { return one >= step; });
      if (steps.newest.empty()) steps.all_until = std::max<int64_t>(step, 0) - 1;
    }
  }
  // Of all tags. -1: none.
  int64_t last() const {
    int64_t last = -1;
    for (const auto& [tag, steps] : tags_)
      last = std::max(last, steps.newest.empty() ? steps.all_until : steps.newest.back());
    return last;
  }

 private:
  struct Steps {
    // Earlier ones are not asked for one by one: they count as written.
    int64_t all_until = std::numeric_limits<int64_t>::min();
    std::vector<int64_t> newest;  // Ascending.
  };
  static constexpr size_t kNewest = 64;
  // A damaged file does not fill the memory.
  static constexpr size_t kTagsMax = 100'000;
  std::map<std::string, Steps, std::less<>> tags_;
};

}  // namespace longhaul
