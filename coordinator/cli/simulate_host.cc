#include "coordinator/cli/simulate_host.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/thread_limit.h"
#include "common/plan/level_model.h"
#include "coordinator/cli/table.h"
#include "worker/measure/host_caches.h"
#include "worker/measure/host_figures.h"
#include "worker/measure/host_kernels.h"
#include "worker/measure/rate.h"

namespace longhaul::cli {
namespace {

// For each working set; two in an octave.
constexpr absl::Duration kEach = absl::Milliseconds(40);
constexpr int kOfOctave = 2;
// What is asked of the model: twice the clock, twice the memory's bandwidth.
constexpr double kTimes = 2;

struct Swept {
  const HostKernel* kernel = nullptr;
  std::vector<plan::LevelSample> samples;
  plan::LevelModel model;
  // Between the sizes of even number and a model that was fitted to the others: the median.
  double error = 0;
};

double MedianError(const std::vector<plan::LevelSample>& samples,
                   const std::vector<double>& caches) {
  std::vector<plan::LevelSample> odd, even;
  for (size_t i = 0; i < samples.size(); ++i) (i % 2 == 0 ? odd : even).push_back(samples[i]);
  const absl::StatusOr<plan::LevelModel> model = plan::FitLevels(odd, caches);
  if (!model.ok() || even.empty()) return 0;
  std::vector<double> errors;
  for (const plan::LevelSample& sample : even)
    errors.push_back(std::abs(model->Seconds(sample.working_set) / sample.seconds - 1));
  const auto middle = errors.begin() + static_cast<int64_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

absl::StatusOr<Swept> Sweep(const HostKernel& kernel, int threads, int64_t largest,
                            const std::vector<double>& caches) {
  Swept swept{.kernel = &kernel};
  for (const int64_t bytes : WorkingSets(threads * kernel.bytes_min, largest, kOfOctave)) {
    const double rate =
        longhaul::RateOf([&] { return kernel.make(bytes / threads); }, threads, kEach);
    swept.samples.push_back({static_cast<double>(bytes), 1 / rate});
  }
  absl::StatusOr<plan::LevelModel> model = plan::FitLevels(swept.samples, caches);
  if (!model.ok()) return model.status();
  swept.model = *std::move(model);
  swept.error = MedianError(swept.samples, caches);
  return swept;
}

// "core", "cache" or "memory", in words.
std::string BoundText(plan::MemoryLevel level) {
  switch (level) {
    case plan::MemoryLevel::kCore:
      return "core";
    case plan::MemoryLevel::kL2:
    case plan::MemoryLevel::kL3:
      return absl::StrCat("cache ", std::string(plan::MemoryLevelName(level)));
    case plan::MemoryLevel::kMemory:
      return "DRAM";
  }
  return "";
}

Json JsonOf(const Swept& swept) {
  const plan::LevelModel& model = swept.model;
  const double set = swept.samples.back().working_set;
  const double stops = model.ClockStopsPaying(set);
  Json shares;
  for (int level = 0; level < 4; ++level) {
    shares[std::string(plan::MemoryLevelName(static_cast<plan::MemoryLevel>(level)))] =
        model.Shares(set)[level] / model.Seconds(set);
  }
  Json sizes = Json::array();
  for (const plan::LevelSample& sample : swept.samples) {
    sizes.push_back({{"working_set_bytes", sample.working_set},
                     {"seconds_per_element", sample.seconds},
                     {"predicted", model.Seconds(sample.working_set)},
                     {"bound", plan::MemoryLevelName(model.Limit(sample.working_set))}});
  }
  return {{"kernel", swept.kernel->name},
          {"element", swept.kernel->element},
          {"bound", plan::MemoryLevelName(model.Limit(set))},
          {"working_set_bytes", set},
          {"elements_per_second", 1 / model.Seconds(set)},
          {"gb_per_second", swept.kernel->memory_bytes / model.Seconds(set) / 1e9},
          {"shares", std::move(shares)},
          {"speedup_clock_x2", model.WithClock(set, kTimes)},
          {"clock_stops_paying_x", std::isfinite(stops) ? Json(stops) : Json(nullptr)},
          {"speedup_memory_x2", model.WithBandwidth(set, kTimes)},
          {"median_error", swept.error},
          {"sizes", std::move(sizes)}};
}

}  // namespace

Outcome SimulateHost(int threads) {
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (threads == 0) threads = processors;
  if (threads > processors) {
    return UsageError(
        absl::StrFormat("--threads: found %d, expected at most %d, the processors "
                        "that this program may use",
                        threads, processors));
  }
  const char* const hint = "stop other programs, or give fewer --threads";
  if (const absl::Status able = CheckThreads(threads); !able.ok())
    return ErrorOf(able, ExitCode::kFailed, hint);
  const absl::StatusOr<int64_t> largest = LargestWorkingSet(threads);
  if (!largest.ok()) return ErrorOf(largest.status(), ExitCode::kFailed, hint);
  const std::vector<double> caches = HostCaches(threads);
  const double bandwidth = longhaul::RateOf(
      [&] { return UpdateRun(std::max<int64_t>(1 << 16, *largest / threads)); }, threads, kEach);
  Json kernels = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const HostKernel& kernel : HostKernels()) {
    absl::StatusOr<Swept> swept = Sweep(kernel, threads, *largest, caches);
    if (!swept.ok()) {
      return ErrorOf(absl::FailedPreconditionError(
                         absl::StrCat("this machine cannot be measured with ", threads,
                                      " threads: ", swept.status().message())),
                     ExitCode::kFailed, hint);
    }
    swept->model.transfer_term = kernel.memory_bytes / bandwidth;
    Json item = JsonOf(*swept);
    const double set = swept->samples.back().working_set;
    const auto number = [&](const char* key, absl::FormatSpec<double> format) {
      return absl::StrFormat(format, item[key].get<double>());
    };
    rows.push_back({std::string(kernel.name), BytesText(static_cast<int64_t>(set)),
                    absl::StrFormat("%.3g", item["elements_per_second"].get<double>() / 1e9),
                    number("gb_per_second", "%.3g"), BoundText(swept->model.Limit(set)),
                    number("speedup_clock_x2", "%.2f"), number("speedup_memory_x2", "%.2f"),
                    item["clock_stops_paying_x"].is_null()
                        ? "any"
                        : absl::StrFormat("x %.2g", item["clock_stops_paying_x"].get<double>()),
                    absl::StrFormat("%.0f %%", 100 * swept->error)});
    kernels.push_back(std::move(item));
  }
  Json data = {{"threads", threads},
               {"memory_gb_per_second", bandwidth / 1e9},
               {"cache_bytes", caches},
               {"kernels", std::move(kernels)}};
  const std::string heading =
      absl::StrFormat("%d threads; memory moves %.3g GB/s\n", threads, bandwidth / 1e9);
  return {std::move(data), absl::StrCat(heading, FittedTable({{"KERNEL"},
                                                              {"WORKING SET"},
                                                              {"10^9/S"},
                                                              {"GB/S"},
                                                              {"BOUND BY"},
                                                              {"CLOCK X2"},
                                                              {"MEMORY X2"},
                                                              {"CLOCK PAYS UP TO"},
                                                              {"MODEL OFF"}},
                                                             rows))};
}

}  // namespace longhaul::cli
