#include "common/layout/unit_tensors.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace longhaul {

absl::Status RequireRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: found %d, expected %d to %d", field, value, low, high));
}

void AddTensor(UnitLayout& unit, std::string name, std::vector<int64_t> shape) {
  TensorLayout tensor{
      .name = std::move(name), .shape = std::move(shape), .offset = unit.elements, .elements = 1};
  for (int64_t d : tensor.shape) tensor.elements *= d;
  tensor.decay = tensor.shape.size() > 1;
  unit.elements += tensor.elements;
  unit.tensors.push_back(std::move(tensor));
}

absl::Status RequireTotal(const ModelLayout& model) {
  if (model.elements() <= kMaxModelElements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("layers: the model has %d parameters; at most %d are accepted",
                      model.elements(), kMaxModelElements));
}

}  // namespace longhaul
