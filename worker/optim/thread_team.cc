#include "worker/optim/thread_team.h"

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

void ThreadTeam::ForParts(int64_t elements, int64_t grain,
                          absl::FunctionRef<void(int64_t first, int64_t end)> body) {
  const int64_t parts = std::min<int64_t>(threads(), elements / kElementsOfThreadMin);
  if (parts < 2) return body(0, elements);
  const int64_t grains = (elements + grain - 1) / grain;
  const auto cut = [&](int64_t part) { return std::min(elements, grains * part / parts * grain); };
  const auto run = [&](int thread) {
    if (thread < parts) body(cut(thread), cut(thread + 1));
  };
  absl::FunctionRef<void(int)> part = run;
  {
    const absl::MutexLock lock(&mutex_);
    part_ = &part;
    working_ = threads() - 1;
    ++runs_;
  }
  run(0);
  const absl::MutexLock lock(&mutex_);
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return working_ == 0; };
  mutex_.Await(absl::Condition(&done));
}

void ThreadTeam::Work(int thread) {
  int64_t seen = 0;
  const auto begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Begun(seen); };
  while (true) {
    absl::FunctionRef<void(int)>* part = nullptr;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&begun));
      if (stopping_) return;
      seen = runs_;
      part = part_;
    }
    (*part)(thread);
    const absl::MutexLock lock(&mutex_);
    --working_;
  }
}

}  // namespace longhaul
