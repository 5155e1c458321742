// Copies of something that changes from version to version, for readers that hold them for long.
// All readers of a version share one copy, so memory does not grow with their number; and they hold
// few versions at one time, so it does not grow with their slowness either.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"

namespace longhaul {

// Keeps no copy alive itself. Thread-safe.
template <typename T>
class SharedCopies {
 public:
  // A reader keeps the copy that it began with, also when there are newer ones.
  static constexpr size_t kVersionsMax = 4;

  // The copy of `version`, which is not older than those of earlier calls. `make` makes it if
  // nobody holds it; meanwhile other callers wait. UNAVAILABLE: copies of too many versions are
  // still held.
  absl::StatusOr<std::shared_ptr<const T>> Get(int64_t version,
                                               absl::FunctionRef<absl::StatusOr<T>()> make) {
    absl::MutexLock lock(&mutex_);
    std::erase_if(copies_, [](const auto& copy) { return copy.second.expired(); });
    if (!copies_.empty() && copies_.back().first == version) {
      // Its last reader may have ended just now.
      if (std::shared_ptr<const T> held = copies_.back().second.lock()) return held;
    }
    if (copies_.size() >= kVersionsMax) {
      return absl::UnavailableError(
          absl::StrCat("slow readers still hold copies of ", copies_.size(), " versions"));
    }
    LH_ASSIGN_OR_RETURN(T made, make());
    auto copy = std::make_shared<const T>(std::move(made));
    copies_.emplace_back(version, copy);
    return copy;
  }

 private:
  absl::Mutex mutex_;
  // By version, the newest last.
  std::vector<std::pair<int64_t, std::weak_ptr<const T>>> copies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
