#include "worker/rank/measured_exchange.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {
namespace {

constexpr int kRanks = 2;
// As much as the gradients of a layer.
constexpr int64_t kElements = 1 << 20;
constexpr absl::Duration kTimeout = absl::Seconds(5);

// Of threads of this process.
class Meeting : public Rendezvous {
 public:
  absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                    absl::Duration timeout) override {
    absl::MutexLock lock(&mutex_);
    blobs_[rank] = std::move(blob);
    ++arrived_;
    const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return arrived_ == kRanks; };
    if (mutex_.AwaitWithTimeout(absl::Condition(&all), timeout)) return blobs_;
    return absl::DeadlineExceededError("the other rank did not come");
  }

 private:
  absl::Mutex mutex_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> blobs_ ABSL_GUARDED_BY(mutex_) = std::vector<std::string>(kRanks);
};

// The ranks agree on the number of their operations: rank 0's time decides after each.
absl::StatusOr<double> RateOfRank(int rank, Meeting& meeting, absl::Duration budget) {
  LH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Communicator> communicator,
      MakeGlooCommunicator(
          {.rank = rank, .size = kRanks, .rendezvous = &meeting, .timeout = kTimeout}));
  const CallOptions options{.timeout = kTimeout};
  std::vector<float> data(kElements, 1);
  double best = 0;
  const absl::Time start = SteadyTime();
  while (true) {
    const int64_t before = communicator->traffic().received_bytes;
    const absl::Time begin = SteadyTime();
    LH_RETURN_IF_ERROR(communicator->AllReduceSum(absl::MakeSpan(data), options));
    const double seconds = absl::ToDoubleSeconds(SteadyTime() - begin);
    const auto bytes = static_cast<double>(communicator->traffic().received_bytes - before);
    if (seconds > 0) best = std::max(best, bytes / seconds);
    std::fill(data.begin(), data.end(), 1);
    std::byte over{static_cast<unsigned char>(SteadyTime() - start >= budget)};
    LH_RETURN_IF_ERROR(communicator->Broadcast(absl::MakeSpan(&over, 1), 0, options));
    if (over != std::byte{0}) return best;
  }
}

}  // namespace

absl::StatusOr<double> MeasureExchange(absl::Duration budget) {
  Meeting meeting;
  absl::Status other;
  std::thread peer([&] { other = RateOfRank(1, meeting, budget).status(); });
  absl::StatusOr<double> rate = RateOfRank(0, meeting, budget);
  peer.join();
  LH_RETURN_IF_ERROR(rate.status());
  LH_RETURN_IF_ERROR(other);
  return rate;
}

}  // namespace longhaul
