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

// The vector instructions of an exponential (worker/kernels/exp-inl.h): rounding to a power of two
// takes two, the rest in two parts two, a polynomial of degree 5 five, the power two, and zeros far
// below two.
constexpr double kExp = 13;

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

// A block of rows, as a pass has them: products have just written them, so they are in a cache.
void AddSwiGlu(KernelTable& table, float* x, float* y, float* z, int64_t floats) {
  const int64_t width = 2816, rows = std::min<int64_t>(64, floats / width / 2);
  const auto n = static_cast<double>(rows * width);
  // Besides the exponential: its sign and bound, one added, a division, a product; the others of
  // the derivative.
  table.Add("swiglu_forward", {.operations = 2 * (kExp + 5) * n},
            [&] { kernels::SwiGluForward(x, rows, width, y); });
  table.Add("swiglu_backward", {.operations = 2 * (kExp + 11) * n},
            [&] { kernels::SwiGluBackward(y, x, rows, width, z, y); });
}

// A block of rows, as the head makes them: logits that are in a cache. In place: gradients are the
// next call's logits.
void AddLoss(KernelTable& table, float* logits, int64_t floats) {
  const int64_t classes = 32'000, rows = std::min<int64_t>(16, floats / classes);
  const std::vector<int64_t> targets(rows, 7);
  const auto n = static_cast<double>(rows * classes);
  // Besides the exponential: the largest, a difference, a sum, a product.
  table.Add("cross_entropy", {.operations = 2 * (kExp + 4) * n},
            [&] { kernels::CrossEntropy(logits, targets.data(), rows, classes, 1.0); });
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
  AddLoss(table, data(0), table.large_floats());
  AddUpdates(table, Buffers(kept, 4, table.large_floats()), table.large_floats());
}

}  // namespace longhaul::benchmark
