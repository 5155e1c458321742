// The memory that the coordinator takes for a job whose store is open. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace longhaul::plan {

// The most bytes: parameters, momentum and the downlink's error feedback in float32 of every
// fragment, the working memory for one copy of the largest, and its coded downlink.
int64_t OuterStateBytes(absl::Span<const int64_t> fragment_elements, const CodecOptions& down);

}  // namespace longhaul::plan
