#include "common/base/thread_team.h"

#include <algorithm>

namespace longhaul {
namespace {

// Waking a thread costs about as much as updating this many elements.
constexpr int64_t kElementsOfThreadMin = 32768;

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  for (int thread = 1; thread < threads; ++thread)
    others_.emplace_back([this, thread] { Work(thread); });
}

ThreadTeam::~ThreadTeam() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& other : others_) other.join();
}

bool ThreadTeam::Take(int64_t part) {
  if (part_ == nullptr || part >= static_cast<int64_t>(taken_.size()) || taken_[part]) return false;
  taken_[part] = true;
  return true;
}

void ThreadTeam::ForParts(int64_t elements, int64_t grain,
                          absl::FunctionRef<void(int64_t first, int64_t end)> body) {
  const int64_t parts = std::min<int64_t>(threads(), elements / kElementsOfThreadMin);
  if (parts < 2 || busy_.exchange(true, std::memory_order_acquire)) return body(0, elements);
  const int64_t grains = (elements + grain - 1) / grain;
  const auto cut = [&](int64_t part) { return std::min(elements, grains * part / parts * grain); };
  Run(parts, [&](int64_t part) { body(cut(part), cut(part + 1)); });
  busy_.store(false, std::memory_order_release);
}

void ThreadTeam::Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second) {
  if (threads() < 2 || busy_.exchange(true, std::memory_order_acquire)) {
    first();
    return second();
  }
  Run(2, [&](int64_t part) { part == 0 ? first() : second(); });
  busy_.store(false, std::memory_order_release);
}

void ThreadTeam::Run(int64_t parts, absl::FunctionRef<void(int64_t part)> part_of_run) {
  {
    const absl::MutexLock lock(&mutex_);
    part_ = &part_of_run;
    taken_.assign(parts, false);
    taken_[0] = true;
    ++runs_;
  }
  part_of_run(0);
  for (int64_t part = 1; part < parts; ++part) {
    {
      const absl::MutexLock lock(&mutex_);
      if (!Take(part)) continue;
    }
    part_of_run(part);
  }
  const absl::MutexLock lock(&mutex_);
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return working_ == 0; };
  mutex_.Await(absl::Condition(&done));
  part_ = nullptr;
}

void ThreadTeam::Work(int thread) {
  int64_t seen = 0;
  const auto begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Begun(seen); };
  while (true) {
    absl::FunctionRef<void(int64_t)>* part = nullptr;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&begun));
      if (stopping_) return;
      seen = runs_;
      if (!Take(thread)) continue;
      part = part_;
      ++working_;
    }
    (*part)(thread);
    const absl::MutexLock lock(&mutex_);
    --working_;
  }
}

}  // namespace longhaul
