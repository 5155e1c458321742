// How one buffer is divided over the ranks of a communicator. Pure values. The caller chooses the
// unit of an offset (elements for reductions, bytes for exchanges).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace longhaul {

struct Part {
  int64_t offset = 0;
  int64_t size = 0;
  friend bool operator==(const Part&, const Part&) = default;
};

// Makes parts of these sizes that follow each other without gaps. INVALID_ARGUMENT: a size is
// negative or the sum overflows.
absl::Status ContiguousParts(absl::Span<const int64_t> sizes, std::vector<Part>* parts);

// Divides `total` over `count` ranks: contiguous parts, of which the first `total % count` are one
// larger. total >= 0, count > 0.
std::vector<Part> EvenParts(int64_t total, int count);

// The parts' sizes, in their order.
std::vector<int64_t> SizesOf(absl::Span<const Part> parts);

// INVALID_ARGUMENT unless there are `count` parts and each lies within [0, total). Overlap is not
// checked.
absl::Status ValidateParts(absl::Span<const Part> parts, int count, int64_t total);

}  // namespace longhaul
