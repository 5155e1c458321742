// Numbers of a training run by step, as trackers of experiments take them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

struct Scalar {
  std::string tag;  // As "train/loss": TensorBoard groups by what is before the first slash.
  double value = 0;
};

// The newest step that a file holds of each tag: what comes again after a restart is not written again.
class LastSteps {
 public:
  bool Takes(absl::string_view tag, int64_t step) const {
    const auto found = steps_.find(tag);
    return found == steps_.end() || step > found->second;
  }
  void Took(absl::string_view tag, int64_t step) {
    if (steps_.size() < kTagsMax || steps_.contains(tag)) steps_[std::string(tag)] = step;
  }
  // What was written of `step` and later ones is void.
  void Rewind(int64_t step) {
    for (auto& [tag, last] : steps_) last = last < step ? last : step - 1;
  }
  // Of all tags. -1: none.
  int64_t last() const {
    int64_t last = -1;
    for (const auto& [tag, step] : steps_) last = step > last ? step : last;
    return last;
  }

 private:
  // A damaged file does not fill the memory.
  static constexpr size_t kTagsMax = 100'000;
  std::map<std::string, int64_t, std::less<>> steps_;
};

}  // namespace longhaul
