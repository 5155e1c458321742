#include "worker/rank/rank_monitor.h"

#include <algorithm>

namespace longhaul {
namespace {

// The first steps are slow, since memory is touched and kernels are chosen for the first time. They
// do not count.
constexpr int64_t kStepsUntilKnown = 3;
// Of the agent's limit. A wait begins some time after the last progress.
constexpr double kOwnShare = 0.75;

}  // namespace

void RankMonitor::BeginStep() {
  absl::MutexLock lock(&mutex_);
  together_ = true;
  steps_now_ = 1;
}

void RankMonitor::EndStep(int64_t step, absl::Duration took) {
  absl::MutexLock lock(&mutex_);
  together_ = false;
  status_.step = step;
  newest_[count_++ % kKept] = absl::ToDoubleSeconds(took);
}

void RankMonitor::BeginEvaluation(int64_t batches) {
  absl::MutexLock lock(&mutex_);
  together_ = true;
  steps_now_ = std::max<int64_t>(1, batches);
}

void RankMonitor::EndEvaluation() {
  absl::MutexLock lock(&mutex_);
  together_ = false;
  steps_now_ = 1;
}

void RankMonitor::WaitsFor(const std::string& what) {
  absl::MutexLock lock(&mutex_);
  status_.waits_for = what;
}

void RankMonitor::PullDamaged() {
  absl::MutexLock lock(&mutex_);
  ++status_.damaged_pulls;
}

absl::Duration RankMonitor::BeginCollective() {
  {
    absl::MutexLock lock(&mutex_);
    status_.in_collective = true;
  }
  return CollectiveTimeout();
}

void RankMonitor::EndCollective() {
  absl::MutexLock lock(&mutex_);
  status_.in_collective = false;
}

double RankMonitor::Expected() const {
  if (count_ < kStepsUntilKnown) return 0;
  std::array<double, kKept> sorted = newest_;
  const auto end = sorted.begin() + std::min<int64_t>(count_, kKept);
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  // 0 would mean that it is not known.
  return std::max(*middle, 1e-6) * static_cast<double>(steps_now_);
}

RankStatus RankMonitor::Status() const {
  absl::MutexLock lock(&mutex_);
  RankStatus status = status_;
  status.expected_seconds = Expected();
  return status;
}

absl::Duration RankMonitor::CollectiveTimeout() const {
  absl::MutexLock lock(&mutex_);
  return 2 * limits_.Of(together_ ? Expected() : 0);
}

absl::Duration RankMonitor::OwnPatience() const {
  absl::MutexLock lock(&mutex_);
  return kOwnShare * limits_.Of(Expected());
}

}  // namespace longhaul
