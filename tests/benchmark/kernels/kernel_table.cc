#include "tests/benchmark/kernels/kernel_table.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/kernels/peaks.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kPeakRounds = 200'000;

// Of this thread on a core: not those in which other programs had it.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Least {
 public:
  void Measure(const std::function<void()>& work) {
    const double begin = ThreadSeconds();
    work();
    seconds_ = std::min(seconds_, ThreadSeconds() - begin);
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace

KernelTable::KernelTable(const Options& options)
    : options_(options), from_(options.megabytes << 20), to_(options.megabytes << 20) {}

bool KernelTable::Wants(const std::string& kernel) const {
  return absl::StrContains(kernel, options_.only);
}

void KernelTable::Add(const std::string& kernel, const Work& work, const std::function<void()>& run,
                      std::optional<double> target) {
  if (!Wants(kernel)) return;
  Least ours, peak, copy, read;
  double operations = 0, total = 0;
  for (int round = 0; round < 3 || total < options_.seconds; ++round) {
    const double begin = ThreadSeconds();
    ours.Measure(run);
    peak.Measure(
        [&] { operations = work.bfloat16 ? RunBf16Peak(kPeakRounds) : RunFloatPeak(kPeakRounds); });
    if (work.reads + work.writes > 0) {
      copy.Measure(
          [&] { std::memcpy(to_.bytes().data(), from_.bytes().data(), from_.bytes().size()); });
      read.Measure([&] { ReadAll(from_.bytes()); });
    }
    total += ThreadSeconds() - begin;
  }
  const auto bytes = static_cast<double>(from_.bytes().size());
  const double compute_time = work.operations / operations * peak.seconds();
  double memory_time = 0;
  if (work.reads + work.writes > 0) {
    const double each_way = std::max(2 * bytes / copy.seconds(), bytes / read.seconds());
    memory_time =
        std::max(work.reads / bytes * read.seconds(), (work.reads + work.writes) / each_way);
  }
  const bool computes = compute_time >= memory_time;
  const double limit = std::max(compute_time, memory_time);
  const double amount = 1e-9 * (computes ? work.operations : work.reads + work.writes);
  Print({.name = absl::StrCat(options_.instructions, " ", kernel),
         .ours = amount / ours.seconds(),
         .reference = amount / limit,
         .ratio = limit / ours.seconds(),
         .target = target,
         .unit = computes ? "GFLOP/s" : "GB/s",
         .note = absl::StrFormat(
             "limit: %s; %.4g ms a call",
             computes ? work.bfloat16 ? "bf16 dot products" : "multiply-adds" : "memory",
             1e3 * ours.seconds())});
}

}  // namespace longhaul::benchmark
