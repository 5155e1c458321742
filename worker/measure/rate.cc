#include "worker/measure/rate.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace longhaul {
namespace {

using Steady = std::chrono::steady_clock;

// Runs are timed in batches of at least so long, since reading the clock takes time.
constexpr double kBatchSeconds = 50e-6;
constexpr int kBatchesMax = 100'000;

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

}  // namespace

double RateOf(const std::function<KernelRun()>& make, int threads, absl::Duration budget) {
  std::barrier ready(threads);
  std::vector<double> rates(threads);
  const auto work = [&](int thread) {
    const KernelRun kernel = make();
    kernel.run();
    ready.arrive_and_wait();
    const Steady::time_point start = Steady::now();
    const double seconds = absl::ToDoubleSeconds(budget);
    std::vector<double> times;
    do {
      const Steady::time_point begin = Steady::now();
      int runs = 0;
      double took = 0;
      do {
        kernel.run();
        ++runs;
        took = SecondsSince(begin);
      } while (took < kBatchSeconds);
      times.push_back(took / runs);
    } while (SecondsSince(start) < seconds && times.size() < kBatchesMax);
    const auto quartile = times.begin() + static_cast<int64_t>(times.size() / 4);
    std::nth_element(times.begin(), quartile, times.end());
    rates[thread] = static_cast<double>(kernel.elements) / *quartile;
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  others.clear();
  // Threads that share a processor are each as fast as alone while they have it.
  const double share = std::min(
      1.0, std::max(1.0, static_cast<double>(std::thread::hardware_concurrency())) / threads);
  return share * std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace longhaul
