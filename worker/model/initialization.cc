#include "worker/model/initialization.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/base/random.h"
#include "worker/model/parallel.h"

namespace longhaul {
namespace {

// "init". The order of the data uses another stream of the same seed.
constexpr uint64_t kParameterStream = 0x696e6974;

uint64_t KeyOf(uint64_t seed, int unit, int tensor) {
  return Philox64(seed, kParameterStream, uint64_t(unit) << 32 | uint64_t(tensor));
}

// Elements of a tensor that a thread makes at a time. Even, so that no pair is made twice.
constexpr int64_t kRun = 8192;

struct NormalPair {
  double first, second;
};

// The standard normal numbers 2 `pair` and 2 `pair` + 1 of a key (Box and Muller, 1958).
NormalPair Normals(uint64_t key, int64_t pair) {
  const auto words = Philox(key, 0, static_cast<uint64_t>(pair));
  const double u = (static_cast<double>(uint64_t{words[1]} << 32 | words[0]) + 0.5) * 0x1p-64;
  const double angle =
      2 * std::numbers::pi * static_cast<double>(uint64_t{words[3]} << 32 | words[2]) * 0x1p-64;
  const double radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Elements [first, end) of a tensor.
void MakeRun(uint64_t key, const InitialValues& values, int64_t first, int64_t end, float* out) {
  const auto value = [&](double normal) {
    return static_cast<float>(values.mean + values.deviation * normal);
  };
  for (int64_t pair = first / 2; 2 * pair < end; ++pair) {
    const NormalPair normals = Normals(key, pair);
    const int64_t at = 2 * pair - first;
    if (at >= 0) out[at] = value(normals.first);
    if (at + 1 < end - first) out[at + 1] = value(normals.second);
  }
}

}  // namespace

void InitializeParameters(const Model& model, uint64_t seed, int unit, int64_t first,
                          absl::Span<float> out) {
  const UnitLayout& layout = model.layout().units[unit];
  const int64_t end = first + static_cast<int64_t>(out.size());
  LH_CHECK(first >= 0 && end <= layout.elements, "initialisation past the unit");
  for (int t = 0; t < static_cast<int>(layout.tensors.size()); ++t) {
    const TensorLayout& tensor = layout.tensors[t];
    const InitialValues values = model.Initial({unit, t});
    const uint64_t key = KeyOf(seed, unit, t);
    // Of the tensor.
    const int64_t begin = std::max(first - tensor.offset, int64_t{0});
    const int64_t stop = std::min(end - tensor.offset, tensor.elements);
    if (begin >= stop) continue;
    float* const to = out.data() + tensor.offset + begin - first;
    if (values.deviation == 0) {
      std::fill_n(to, stop - begin, static_cast<float>(values.mean));
      continue;
    }
    const int64_t runs = begin / kRun;
    ForTasks((stop + kRun - 1) / kRun - runs, [&](int64_t task, int) {
      const int64_t from = std::max(begin, (runs + task) * kRun);
      MakeRun(key, values, from, std::min(stop, (runs + task + 1) * kRun), to + from - begin);
    });
  }
}

}  // namespace longhaul
