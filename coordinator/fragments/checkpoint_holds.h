// Which checkpoints are being read, so that they are not removed to make room for newer ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace longhaul::coordinator {

// Thread-safe. It outlives what Hold returns.
class CheckpointHolds {
 public:
  // A reader of a checkpoint opens its files one after another: it is held so long after the last
  // one.
  static constexpr absl::Duration kLinger = absl::Minutes(1);

  explicit CheckpointHolds(std::function<absl::Time()> now = SteadyTime) : now_(std::move(now)) {}

  // Holds the checkpoint of this step while the result lives, and kLinger longer.
  std::shared_ptr<const void> Hold(const std::string& job, int64_t step);
  std::set<int64_t> Held(const std::string& job);

 private:
  struct Reading {
    int holders = 0;
    absl::Time until = absl::InfinitePast();
  };
  void LetGo(const std::string& job, int64_t step);

  const std::function<absl::Time()> now_;
  absl::Mutex mutex_;
  std::map<std::pair<std::string, int64_t>, Reading> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
