#include "common/codec/segment_blocks.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace longhaul {

absl::Status NonFiniteError(std::string_view codec, absl::Span<const float> in,
                            absl::Span<const float> error) {
  for (size_t i = 0; i < in.size(); ++i) {
    const float value = error.empty() ? in[i] : in[i] + error[i];
    if (std::isfinite(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: element %d of the segment is %f", codec, i, value));
  }
  LH_CHECK(false, "called for a segment of finite elements");
}

}  // namespace longhaul
