#include "worker/session/data_summary_of.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "worker/replica/inner_state.h"

namespace longhaul::session {

v1::DataSummary DataSummaryOf(absl::Span<const NamedValue> phase) {
  v1::DataSummary summary;
  for (const NamedValue& value : phase) {
    if (absl::StartsWith(value.name, kDataTokensPrefix))
      summary.add_tokens(static_cast<int64_t>(value.value));
    if (absl::StartsWith(value.name, kDataSamplePrefix))
      summary.add_samples(static_cast<uint64_t>(value.value));
  }
  return summary;
}

}  // namespace longhaul::session
