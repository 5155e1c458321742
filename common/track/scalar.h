// Numbers of a training run by step, in the form that trackers of experiments take.
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
  // For example "train/loss". TensorBoard groups tags by the part before the first slash.
  std::string tag;
  double value = 0;
};

// The newest steps that a file has for each tag, so that points that come again after a restart are
// not written again. Steps may come somewhat out of order, since pools report in turns.
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
  // The points of `step` and of later steps are not valid any more.
  void Rewind(int64_t step) {
    for (auto& [tag, steps] : tags_) {
      std::erase_if(steps.newest, [step](int64_t one) { return one >= step; });
      if (steps.newest.empty()) steps.all_until = std::max<int64_t>(step, 0) - 1;
    }
  }
  // The newest step of all tags, or -1.
  int64_t last() const {
    int64_t last = -1;
    for (const auto& [tag, steps] : tags_)
      last = std::max(last, steps.newest.empty() ? steps.all_until : steps.newest.back());
    return last;
  }

 private:
  struct Steps {
    // Steps up to this one count as written; they are not stored one by one.
    int64_t all_until = std::numeric_limits<int64_t>::min();
    // Ascending.
    std::vector<int64_t> newest;
  };
  static constexpr size_t kNewest = 64;
  // A limit, so that a damaged file cannot fill the memory.
  static constexpr size_t kTagsMax = 100'000;
  std::map<std::string, Steps, std::less<>> tags_;
};

}  // namespace longhaul
