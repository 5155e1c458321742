#include "common/plan/outer_state.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"

namespace longhaul::plan {

int64_t OuterStateBytes(absl::Span<const int64_t> fragment_elements, const CodecOptions& down) {
  constexpr int64_t kStateBytes = 3 * sizeof(float);
  int64_t elements = 0, largest = 0;
  for (const int64_t of_fragment : fragment_elements) {
    elements += of_fragment;
    largest = std::max(largest, of_fragment);
  }
  // A job with a codec that this build lacks is refused elsewhere.
  const absl::StatusOr<std::unique_ptr<Codec>> codec = MakeCodec(down);
  const int64_t coded =
      codec.ok() ? (*codec)->FragmentBytes(largest) : largest * static_cast<int64_t>(sizeof(float));
  return kStateBytes * (elements + largest) + coded;
}

}  // namespace longhaul::plan
