// What kernels of one thread are bound by on this machine, by the level model fitted to half of the
// working sets: how far it is from the other half, and whether the verdicts are those that must
// come out. A loop over single elements is bound by the core wherever its arrays lie; AdamW with
// vectors is bound by memory beyond the caches. Coding with vectors and a gather of rows take from
// memory about twice as long as from caches, so that either verdict is right.
//
// Options: --smoke runs few and small sets, whose figures mean nothing.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/huge_pages.h"
#include "common/codec/codec.h"
#include "common/layout/fragment_layout.h"
#include "common/plan/level_model.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/optimizer/plain_adamw.h"
#include "worker/measure/host_caches.h"
#include "worker/measure/host_figures.h"
#include "worker/measure/host_kernels.h"
#include "worker/measure/rate.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kSmallest = 1 << 14;

// As those of worker/measure, a run works on a part of the memory and the next one on the next.
constexpr int64_t kPart = 1 << 14;

KernelRun ScalarAdamW(int64_t bytes) {
  const int64_t n = std::clamp<int64_t>(bytes / 16, 64, kPart), parts = bytes / 16 / n;
  const int64_t stride = parts * n + 272;
  const auto memory = std::make_shared<HugePageVector<float>>(4 * stride, 1e-3F);
  const auto next = std::make_shared<int64_t>(0);
  return {n, [memory, next, n, parts, stride] {
            float* const at = memory->data() + *next * n;
            PlainAdamW({1, 0.9F, 0.1F, 0.99F, 0.01F, 1, 1e-4F, 1, 1e-8F, 0}, n, at, at + stride,
                       at + 2 * stride, at + 3 * stride);
            *next = (*next + 1) % parts;
          }};
}

KernelRun ScalarEncode(int64_t bytes) {
  const std::shared_ptr<const Codec> codec =
      MakeCodec({.kind = CodecKind::kInt8, .kernels = KernelKind::kScalar}).value();
  // A value and its code have 5 bytes.
  const int64_t elements = bytes / 5 / kBlockElements * kBlockElements;
  const int64_t n = std::clamp(elements, kBlockElements, kPart), parts = elements / n;
  const int64_t payload = codec->PayloadBytes(n);
  const auto values = std::make_shared<HugePageVector<float>>(parts * n, 1e-3F);
  const auto out = std::make_shared<std::vector<uint8_t>>(parts * payload);
  const auto next = std::make_shared<int64_t>(0);
  return {n, [codec, values, out, next, n, parts, payload] {
            codec
                ->Encode({.values = absl::MakeConstSpan(*values).subspan(*next * n, n)}, {},
                         absl::MakeSpan(*out).subspan(*next * payload, payload))
                .value();
            *next = (*next + 1) % parts;
          }};
}

struct Case {
  std::string name;
  std::function<KernelRun(int64_t)> make;
  // What an element moves.
  double memory_bytes = 0;
  // At the largest set. Empty: either.
  std::string bound;
};

void Measure(const Case& kernel, int64_t largest, absl::Duration each) {
  const auto rate_of = [&](const std::function<KernelRun(int64_t)>& make, int64_t bytes) {
    return RateOf([&] { return make(bytes); }, 1, each);
  };
  const std::vector<double> caches = HostCaches(1);
  std::vector<plan::LevelSample> odd, even, all;
  for (const int64_t bytes : WorkingSets(kSmallest, largest, 2)) {
    const plan::LevelSample sample{static_cast<double>(bytes), 1 / rate_of(kernel.make, bytes)};
    (all.size() % 2 == 0 ? odd : even).push_back(sample);
    all.push_back(sample);
  }
  const plan::LevelModel half = plan::FitLevels(odd, caches).value();
  std::vector<double> errors;
  for (const plan::LevelSample& sample : even)
    errors.push_back(std::abs(half.Seconds(sample.working_set) / sample.seconds - 1));
  const double error = Median(errors);
  plan::LevelModel model = plan::FitLevels(all, caches).value();
  const double bandwidth = rate_of(UpdateRun, largest);
  model.transfer_term = kernel.memory_bytes / bandwidth;
  const double set = all.back().working_set;
  const std::string bound(plan::MemoryLevelName(model.Limit(set)));
  const std::string note = absl::StrFormat(
      "%.3g 10^9/s in the first cache, %.3g beyond the last, where it moves %.3g of memory's %.3g "
      "GB/s; bound by %s; twice the clock x %.2f",
      1e-9 / all.front().seconds, 1e-9 / all.back().seconds,
      1e-9 * kernel.memory_bytes / all.back().seconds, 1e-9 * bandwidth, bound,
      model.WithClock(set, 2));
  Print({.name = "levels / " + kernel.name,
         .ours = error,
         .reference = 0,
         .ratio = 1 - error,
         .target = 0.85,
         .unit = "off",
         .note = note});
  if (kernel.bound.empty()) return;
  Print({.name = "levels / " + kernel.name + " is bound by " + kernel.bound,
         .ours = bound == kernel.bound ? 1.0 : 0.0,
         .reference = 1,
         .ratio = bound == kernel.bound ? 1.0 : 0.0,
         .target = 1,
         .unit = "verdict",
         .note = "found " + bound});
}

int Main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const int64_t largest = smoke ? 1 << 18 : LargestWorkingSet(1).value();
  const absl::Duration each = smoke ? absl::Milliseconds(1) : absl::Milliseconds(60);
  const HostKernel &adamw = *FindHostKernel("adamw"), &encode = *FindHostKernel("encode"),
                   &gather = *FindHostKernel("gather");
  const Case cases[] = {{"adamw", adamw.make, adamw.memory_bytes, smoke ? "" : "memory"},
                        {"adamw, scalar", ScalarAdamW, adamw.memory_bytes, smoke ? "" : "core"},
                        {"encode e3m0", encode.make, encode.memory_bytes, ""},
                        {"encode int8, scalar", ScalarEncode, 5, smoke ? "" : "core"},
                        {"gather of 512-byte rows", gather.make, gather.memory_bytes, ""}};
  for (const Case& kernel : cases) Measure(kernel, largest, each);
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
