// A pool of one rank for exchange.py: a whole session of the product, around a replica whose steps
// cost nothing while a round is under way, so that what is timed is the exchange alone.
//   exchange_pool COORDINATOR POOL
//
// In each round it says "snapshot" on standard output when it has copied its parameters, waits for
// a line on standard input, and says "ready SECONDS USER SYSTEM" when the session begins to merge
// the new outer parameters: the time on the monotonic clock, and the CPU seconds of this process
// since that line. It runs until standard input ends.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/random.h"
#include "common/rpc/allocator.h"
#include "worker/agent/membership_client.h"
#include "worker/rank/capabilities.h"
#include "worker/replica/replica.h"
#include "worker/session/rank_session.h"

namespace longhaul::benchmark {
namespace {

struct CpuSeconds {
  double user = 0, system = 0;
};

CpuSeconds CpuNow() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

double MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// One vector of parameters. Every odd step moves it by noise, other pools' by other noise; the
// schedule (h 2, tau 1) pushes after odd steps and merges after even ones.
class GatedReplica : public Replica {
 public:
  GatedReplica(int64_t elements, uint64_t seed)
      : layout_(LayOutSynthetic(1, elements).value()), noise_(kNoise), parameters_(elements) {
    Random random(seed, 0);
    for (float& x : noise_) {
      // About normal: the sum of some uniform numbers.
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += random.Uniform() - 0.5;
      x = static_cast<float>(1e-3 * sum);
    }
  }

  const ModelLayout& layout() const override { return layout_; }
  int rank() const override { return 0; }
  int ranks() const override { return 1; }

  absl::StatusOr<StepStats> Step(int64_t step) override {
    pushes_next_ = step % 2 == 1;
    if (pushes_next_) {
      const size_t first = static_cast<size_t>(step) * 7919;
      for (size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i] += noise_[(first + i) % kNoise];
      }
    }
    return StepStats{.tokens = 1};
  }

  absl::Status Read(int, int64_t offset, absl::Span<float> out) override {
    std::copy_n(parameters_.begin() + offset, out.size(), out.begin());
    if (std::exchange(pushes_next_, false)) Gate();
    return absl::OkStatus();
  }

  absl::Status Write(int, int64_t offset, absl::Span<const float> in) override {
    if (std::exchange(timed_, false)) Report();
    std::copy(in.begin(), in.end(), parameters_.begin() + offset);
    return absl::OkStatus();
  }

  absl::Status Publish(absl::Span<const int>) override { return absl::OkStatus(); }
  absl::StatusOr<EvalStats> Evaluate() override { return EvalStats{}; }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    return std::vector<std::vector<int64_t>>{{values.begin(), values.end()}};
  }

 private:
  static constexpr size_t kNoise = 1 << 20;

  void Gate() {
    std::cout << "snapshot" << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) std::_Exit(0);
    since_ = CpuNow();
    timed_ = true;
  }

  void Report() const {
    const double now = MonotonicNow();
    const CpuSeconds cpu = CpuNow();
    std::printf("ready %.6f %.6f %.6f\n", now, cpu.user - since_.user, cpu.system - since_.system);
    std::fflush(stdout);
  }

  const ModelLayout layout_;
  std::vector<float> noise_, parameters_;
  bool pushes_next_ = false, timed_ = false;
  CpuSeconds since_;
};

int Main(const std::string& coordinator, const std::string& pool) {
  TuneAllocatorForBulk();  // As longhaul-rank does.
  const Logger log({.program = pool, .level = LogLevel::kWarning});
  absl::Mutex mutex;
  std::string incarnation;
  std::optional<v1::Assignment> assignment;
  v1::JoinRequest join;
  join.set_pool(pool);
  join.set_ranks(1);
  for (const std::string& capability : CapabilitiesOn(v1::CPU)) join.add_capabilities(capability);
  const MembershipClient membership({.log = log, .coordinator = coordinator, .join = join},
                                    [&](const MembershipClient::State& state) {
                                      absl::MutexLock lock(&mutex);
                                      if (assignment || state.assignment.job_id().empty()) return;
                                      incarnation = state.incarnation;
                                      assignment = state.assignment;
                                    });
  {
    absl::MutexLock lock(&mutex);
    const auto assigned = [&] { return assignment.has_value(); };
    mutex.Await(absl::Condition(&assigned));  // For exchange.py, which has a deadline, to end.
  }
  GatedReplica replica(assignment->spec().model().synthetic().elements(),
                       std::hash<std::string>()(pool));
  session::RankSession session({.coordinator = coordinator,
                                .job = assignment->job_id(),
                                .pool = pool,
                                .incarnation = incarnation,
                                .log = log},
                               &replica);
  const session::Outcome outcome = session.Run();
  std::cerr << pool << ": " << outcome.reason << ": " << outcome.status << "\n";
  return outcome.kind == session::Outcome::Kind::kFinished ? 0 : 1;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: exchange_pool COORDINATOR POOL\n";
    return 4;
  }
  return longhaul::benchmark::Main(argv[1], argv[2]);
}
