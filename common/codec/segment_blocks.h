// What the codecs share around their kernels: kernels see whole blocks only, so a short last block
// goes through a copy padded with zeros; refusals of NaN and Inf name the element. Values; not
// thread-safe; no function blocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

// A copy of the elements of a segment after its whole blocks, padded to a block.
class TailBlock {
 public:
  explicit TailBlock(absl::Span<const float> segment) : elements_(segment.size() % kBlockElements) {
    std::copy(segment.end() - elements_, segment.end(), values_.begin());
  }
  int64_t elements() const { return elements_; }  // 0: the segment has whole blocks only.
  absl::Span<const float> block() const { return values_; }
  absl::Span<float> block() { return absl::MakeSpan(values_); }
  void CopyTo(absl::Span<float> segment) const {
    std::copy_n(values_.begin(), elements_, segment.end() - elements_);
  }

 private:
  alignas(64) std::array<float, kBlockElements> values_ = {};
  int64_t elements_;
};

// Adds the energies of the blocks, in their order.
inline EncodeResult SumEnergies(absl::Span<const kernels::BlockResult> blocks) {
  EncodeResult result;
  for (const kernels::BlockResult& block : blocks) {
    result.error_energy += block.error_energy;
    result.signal_energy += block.signal_energy;
  }
  return result;
}

inline bool AllFinite(absl::Span<const kernels::BlockResult> blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const auto& block) { return block.magnitude_max <= kernels::kFiniteMax; });
}

// The refusal of a segment that holds a NaN or Inf. With `error`, of in + error.
absl::Status NonFiniteError(std::string_view codec, absl::Span<const float> in,
                            absl::Span<const float> error = {});

}  // namespace longhaul
