// A model's parameters as one flat float32 buffer for each unit, and what autograd sees of them: a
// leaf for each tensor, sharing the buffer's memory. When computing in bf16, leaves of matrices lie
// in a 16-bit shadow of the buffer instead; the shadow carries the version of the buffer it was
// made from and is renewed when it is behind.
//
// Used from one thread. Methods throw as torch does.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"
#include "worker/model/model.h"

namespace longhaul {

class FlatParameters {
 public:
  // `compute`: kFloat or kBFloat16. Values begin as zeros. `layout` must outlive the object.
  FlatParameters(const ModelLayout& layout, at::Device device, at::ScalarType compute);

  // A unit's buffer. Whoever writes into it must say so with Wrote.
  const at::Tensor& unit(int unit) const { return units_[unit].master; }
  void Wrote(int unit) { ++units_[unit].version; }

  // The leaves that a unit's forward takes: its own tensors, then the borrowed ones; up to date
  // with the buffers.
  std::vector<at::Tensor> Leaves(int unit, absl::Span<const TensorRef> borrowed);

  // Copies elements [offset, offset + size) between a unit's buffer and host memory.
  void Read(int unit, int64_t offset, absl::Span<float> out) const;
  void Write(int unit, int64_t offset, absl::Span<const float> in);

 private:
  struct Unit {
    at::Tensor master, shadow;       // The shadow is undefined when computing in float32.
    std::vector<at::Tensor> leaves;  // By tensor.
    int64_t version = 0, shadow_version = 0;
  };

  void RenewShadow(Unit& unit);

  std::vector<Unit> units_;
};

}  // namespace longhaul
