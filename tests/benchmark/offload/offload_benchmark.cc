// The interleaved update on the emulated device with links of a given rate: measured step times by
// stride against what the model predicts of measured rates, and against the fitted law; and what
// the stride that it would choose costs. Gradients are on the host when the clock starts, as after
// a backward that flushes them.
//
//   offload_benchmark [--subgroups N] [--elements N] [--link-gbytes G] [--repetitions R] [--smoke]
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/update_bounds.h"
#include "worker/movement/emulated_movement.h"
#include "worker/offload/interleaved_adamw.h"
#include "worker/offload/update_rates.h"

namespace longhaul::benchmark {
namespace {

constexpr int kStrides[] = {2, 3, 4, 6, 8};
constexpr double kErrorMax = 0.08, kChoiceMax = 1.03;

struct Arguments {
  int subgroups = 24, repetitions = 15;
  int64_t elements = 1 << 20;  // Of each.
  double link_gbytes = 2;      // A second, each way; what one thread copies beside the host.
};

class Sweep {
 public:
  explicit Sweep(const Arguments& arguments)
      : arguments_(arguments),
        elements_(arguments.subgroups, arguments.elements),
        movement_({.mode = EmulatedMovement::Mode::kThreads,
                   .up_bytes_per_second = 1e9 * arguments.link_gbytes,
                   .down_bytes_per_second = 1e9 * arguments.link_gbytes}),
        masters_(4 * arguments.subgroups * arguments.elements),
        gradients_(4 * arguments.subgroups * arguments.elements) {
    for (float& value : gradients_.floats()) value = 1e-3f;
  }

  void Run() {
    const auto rates = MeasureUpdateRates(
        movement_, EmulatedAdamW, nullptr,
        {.elements = std::min<int64_t>(1 << 23, arguments_.subgroups * arguments_.elements)});
    LH_CHECK(rates.ok(), "cannot measure");
    load_.rates = *rates;
    std::fprintf(stderr,
                 "host %.2f (beside copies %.2f), device %.2f Gparam/s; up %.2f, down %.2f GB/s\n",
                 rates->host_elements / 1e9, rates->host_elements_beside / 1e9,
                 rates->device_elements / 1e9, rates->up_bytes / 1e9, rates->down_bytes / 1e9);
    const std::map<int, double> measured = Measure();
    Predictions(measured);
    Law(measured);
    Choice(measured);
  }

 private:
  UpdateSchedule Schedule(int stride) const {
    return MakeUpdateSchedule(elements_, {.stride = stride});
  }

  // The least of each stride, in turn: what else runs only adds.
  std::map<int, double> Measure() {
    std::vector<InterleavedAdamW::Subgroup> subgroups;
    for (int i = 0; i < arguments_.subgroups; ++i)
      subgroups.push_back({{.elements = arguments_.elements, .decay = true}, Part(masters_, i)});
    std::map<int, double> least;
    for (int i = 0; i < arguments_.repetitions; ++i) {
      for (const int stride : kStrides) {
        const auto optimizer = InterleavedAdamW::Create({.schedule = {.stride = stride}}, subgroups,
                                                        movement_, EmulatedAdamW, nullptr);
        LH_CHECK(optimizer.ok(), "no memory");
        Step(**optimizer);  // Touches its memory.
        const double seconds = Step(**optimizer);
        least[stride] = i == 0 ? seconds : std::min(least[stride], seconds);
      }
    }
    return least;
  }

  double Step(InterleavedAdamW& optimizer) {
    std::vector<SubgroupUpdate> updates;
    for (int i = 0; i < arguments_.subgroups; ++i) {
      updates.push_back(
          {.subgroup = i, .parameters = Part(masters_, i), .gradients = Part(gradients_, i)});
      optimizer.FlushGradients(updates.back());
    }
    optimizer.PrefetchState();
    LH_CHECK(movement_.WaitAll("the backward pass").ok(), "the device failed");
    return Seconds([&] {
      optimizer.Begin({.learning_rate = 1e-3});
      for (const SubgroupUpdate& update : updates) optimizer.Submit(update);
      LH_CHECK(optimizer.Finish().ok(), "the device failed");
    });
  }

  absl::Span<float> Part(const Buffer& buffer, int subgroup) const {
    return buffer.floats().subspan(subgroup * arguments_.elements, arguments_.elements);
  }

  void Predictions(const std::map<int, double>& measured) {
    double worst = 0;
    std::string note;
    for (const auto& [stride, seconds] : measured) {
      const double predicted = PredictSeconds(load_, elements_, Schedule(stride));
      worst = std::max(worst, std::abs(predicted / seconds - 1));
      absl::StrAppendFormat(&note, "k=%d %.1f for %.1f (bound %.1f) ms; ", stride, 1e3 * predicted,
                            1e3 * seconds, 1e3 * BoundSeconds(load_, Schedule(stride)));
    }
    Report("largest error of predicted step times", worst, note);
  }

  void Law(const std::map<int, double>& measured) {
    const StrideLaw law = StrideLaw::Through(2, measured.at(2), 8, measured.at(8));
    double worst = 0;
    for (const auto& [stride, seconds] : measured)
      worst = std::max(worst, std::abs(law.At(stride) / seconds - 1));
    Report("largest error of the law A(1-1/k) + B/k", worst,
           absl::StrFormat("through k=2 and k=8: A %.1f ms, B %.1f ms", 1e3 * law.a, 1e3 * law.b));
  }

  // The model's choice among the strides, against the best one measured.
  void Choice(const std::map<int, double>& measured) {
    const auto predicted = [&](int stride) {
      return PredictSeconds(load_, elements_, Schedule(stride));
    };
    const int chosen =
        *std::min_element(std::begin(kStrides), std::end(kStrides),
                          [&](int one, int other) { return predicted(one) < predicted(other); });
    double best = measured.at(chosen);
    for (const auto& [stride, seconds] : measured) best = std::min(best, seconds);
    Print({.name = "offload / step with the chosen stride",
           .ours = 1e3 * measured.at(chosen),
           .reference = 1e3 * best,
           .ratio = best / measured.at(chosen),
           .target = 1 / kChoiceMax,
           .unit = "ms",
           .note = absl::StrCat("chosen: ", chosen)});
  }

  void Report(const std::string& name, double error, const std::string& note) {
    Print({.name = "offload / " + name,
           .ours = 100 * error,
           .reference = 100 * kErrorMax,
           .ratio = kErrorMax / error,
           .target = 1,
           .unit = "%",
           .note = note});
  }

  const Arguments arguments_;
  const std::vector<int64_t> elements_;
  EmulatedMovement movement_;
  Buffer masters_, gradients_;
  UpdateLoad load_;
};

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  longhaul::benchmark::Arguments arguments;
  bool smoke = false;
  const auto end =
      longhaul::benchmark::ReadFlags("The interleaved update against its model.", argc, argv,
                                     {{"--subgroups", &arguments.subgroups},
                                      {"--elements", &arguments.elements},
                                      {"--link-gbytes", &arguments.link_gbytes},
                                      {"--repetitions", &arguments.repetitions},
                                      {"--smoke", &smoke, "small and short"}});
  if (end) return *end;
  if (smoke) arguments.elements = 16384, arguments.repetitions = 1;
  longhaul::benchmark::Sweep(arguments).Run();
}
