// The last checks before bytes from outside go into the log.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// Checks the coded bytes of segments. Not thread-safe, since it keeps a tile to decode into.
class SegmentChecker {
 public:
  // `codec` outlives the object.
  explicit SegmentChecker(const Codec* codec) : codec_(codec) {}
  // INVALID_ARGUMENT: bytes that Validate of the codec refuses, or a decoded magnitude above 2^64.
  // With this bound, and the bound of weights, an outer step stays finite whatever pools send. No
  // real gradient comes near it.
  absl::Status Check(const SegmentRef& segment, absl::Span<const uint8_t> payload);

 private:
  const Codec* const codec_;
  std::vector<float> decoded_;
};

// INVALID_ARGUMENT: no segments; a segment that is out of order, outside the fragment, across a
// tile, or not of whole blocks; a payload of another size. Pure.
absl::Status CheckPart(const PartInfo& part, int64_t payload_bytes, int64_t fragment_elements);

}  // namespace longhaul
