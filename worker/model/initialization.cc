#include "worker/model/initialization.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/base/random.h"

namespace longhaul {
namespace {

// "init". The order of the data uses another stream of the same seed.
constexpr uint64_t kParameterStream = 0x696e6974;

uint64_t KeyOf(uint64_t seed, int unit, int tensor) {
  return Philox64(seed, kParameterStream, uint64_t(unit) << 32 | uint64_t(tensor));
}

// The `index`-th standard normal number of a key (Box and Muller, 1958). Each counter value gives
// two numbers.
double Normal(uint64_t key, int64_t index) {
  const auto words = Philox(key, 0, static_cast<uint64_t>(index / 2));
  const double u = (static_cast<double>(uint64_t{words[1]} << 32 | words[0]) + 0.5) * 0x1p-64;
  const double angle =
      2 * std::numbers::pi * static_cast<double>(uint64_t{words[3]} << 32 | words[2]) * 0x1p-64;
  const double radius = std::sqrt(-2 * std::log(u));
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
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
    const int64_t stop = std::min(end, tensor.offset + tensor.elements);
    for (int64_t i = std::max(first, tensor.offset); i < stop; ++i) {
      const double noise =
          values.deviation == 0 ? 0 : values.deviation * Normal(key, i - tensor.offset);
      out[i - first] = static_cast<float>(values.mean + noise);
    }
  }
}

}  // namespace longhaul
