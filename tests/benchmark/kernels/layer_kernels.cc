#include <algorithm>
#include <vector>

#include "tests/benchmark/kernels/kernels.h"
#include "worker/kernels/cross_entropy.h"
#include "worker/kernels/rms_norm.h"
#include "worker/kernels/rotary.h"
#include "worker/kernels/swiglu.h"
#include "worker/optim/adamw_constants.h"
#include "worker/optim/squared_norm.h"

namespace longhaul::benchmark {
namespace {

// The least number of vector instructions for an exponential: reduction of the range, a polynomial,
// the power of two.
constexpr double kExp = 16;

// Buffers of the table's size, as many as a kernel needs, with small numbers.
std::vector<Buffer*> Buffers(std::vector<std::unique_ptr<Buffer>>& kept, size_t count,
                             int64_t floats) {
  std::vector<Buffer*> buffers;
  while (kept.size() < count) kept.push_back(std::make_unique<Buffer>(floats * sizeof(float)));
  for (size_t i = 0; i < count; ++i) {
    buffers.push_back(kept[i].get());
    float value = 0.1f;
    for (float& x : kept[i]->floats()) {
      x = value - 0.5f;
      value = value > 0.9f ? value - 0.83f : value + 0.0931f;
    }
  }
  return buffers;
}

void AddNorms(KernelTable& table, float* x, float* y, float* z, int64_t floats) {
  const int64_t width = 1024, rows = floats / width;
  const std::vector<float> weight(width, 1.0f);
  std::vector<float> inverse(rows), dweight(width);
  const double bytes = 4.0 * static_cast<double>(floats);
  const auto forward = [&] {
    kernels::RmsNormForward(x, weight.data(), 1e-5, rows, width, y, inverse.data());
  };
  table.Add("rms_norm_forward", {.reads = bytes, .writes = bytes}, forward);
  forward();
  // In place: dy becomes dx.
  table.Add("rms_norm_backward", {.reads = 2 * bytes, .writes = bytes}, [&] {
    kernels::RmsNormBackward(z, x, weight.data(), inverse.data(), rows, width,
                             {.dx = z, .dweight = dweight.data()});
  });
  const std::vector<float> cos(32, 0.8f), sin(32, 0.6f);
  table.Add("rotary", {.reads = bytes, .writes = bytes},
            [&] { kernels::Rotate(y, floats / 64, 64, cos.data(), sin.data()); });
}

void AddSwiGlu(KernelTable& table, float* x, float* y, float* z, int64_t floats) {
  // gate_up needs two arrays' worth of one.
  const int64_t width = 2816, rows = floats / width / 2;
  const auto n = static_cast<double>(rows * width);
  table.Add("swiglu_forward", {.operations = 2 * (kExp + 6) * n, .reads = 8 * n, .writes = 4 * n},
            [&] { kernels::SwiGluForward(x, rows, width, y); });
  table.Add("swiglu_backward",
            {.operations = 2 * (kExp + 12) * n, .reads = 12 * n, .writes = 12 * n},
            [&] { kernels::SwiGluBackward(y, x, rows, width, z, y); });
}

// A block of rows, as the head makes them: logits that are in the cache.
void AddLoss(KernelTable& table, const float* from) {
  const int64_t rows = 16, classes = 32'000;
  std::vector<float> logits(rows * classes);
  const std::vector<int64_t> targets(rows, 7);
  const auto n = static_cast<double>(rows * classes);
  // Its own copy of the logits is none of the kernel; 1 % of the time.
  table.Add("cross_entropy", {.operations = 2 * (kExp + 4) * n}, [&] {
    std::copy_n(from, rows * classes, logits.data());
    kernels::CrossEntropy(logits.data(), targets.data(), rows, classes, 1.0);
  });
}

void AddUpdates(KernelTable& table, const std::vector<Buffer*>& arrays, int64_t floats) {
  const AdamWConstants constants =
      MakeAdamWConstants({}, {.learning_rate = 1e-3}, 10, /*decay=*/true);
  std::vector<uint16_t> shadow(floats);
  const auto data = [&](int i) { return arrays[i]->floats().data(); };
  for (float& x : arrays[3]->floats()) x = 0.01f;
  const auto n = static_cast<double>(floats);
  const auto update = [&](uint16_t* narrow) {
    AdamWKernel(constants, floats,
                {.gradients = data(0),
                 .parameters = data(1),
                 .shadow = narrow,
                 .moment = data(2),
                 .variance = data(3)});
  };
  table.Add("adamw", {.reads = 16 * n, .writes = 12 * n}, [&] { update(nullptr); });
  table.Add("adamw_shadow", {.reads = 16 * n, .writes = 14 * n}, [&] { update(shadow.data()); });
  table.Add("squared_norm", {.reads = 4 * n}, [&] { SquaredNorm(arrays[0]->floats()); });
}

}  // namespace

void AddLayerKernels(KernelTable& table) {
  std::vector<std::unique_ptr<Buffer>> kept;
  const std::vector<Buffer*> arrays = Buffers(kept, 4, table.large_floats());
  const auto data = [&](int i) { return arrays[i]->floats().data(); };
  AddNorms(table, data(0), data(1), data(2), table.large_floats());
  AddSwiGlu(table, data(0), data(1), data(2), table.large_floats());
  if (table.large_floats() >= 16 * 32'000) AddLoss(table, data(0));
  AddUpdates(table, Buffers(kept, 4, table.large_floats()), table.large_floats());
}

}  // namespace longhaul::benchmark
