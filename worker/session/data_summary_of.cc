#include "worker/session/data_summary_of.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/wire/data_summary.h"
#include "worker/replica/inner_state.h"

namespace longhaul::session {

v1::DataSummary DataSummaryOf(absl::Span<const NamedValue> phase,
                              absl::Span<const v1::DataWarning> warnings,
                              const std::string& features) {
  v1::DataSummary summary;
  summary.set_features(ClipWords(ToUtf8(features), kDataFeaturesBytesMax));
  for (const NamedValue& value : phase) {
    if (absl::StartsWith(value.name, kDataTokensPrefix))
      summary.add_tokens(static_cast<int64_t>(value.value));
    if (absl::StartsWith(value.name, kDataSamplePrefix))
      summary.add_samples(static_cast<uint64_t>(value.value));
  }
  std::map<std::string, int> counts;
  for (const v1::DataWarning& warning : warnings) ++counts[warning.kind()];
  for (const v1::DataWarning& warning : warnings) {
    const int count = std::exchange(counts[warning.kind()], 0);
    if (count == 0 || summary.warnings_size() == kDataWarningsMax) continue;
    const std::string more =
        count > 1 ? absl::StrCat(" (and ", count - 1, " more of this kind, in its log)") : "";
    v1::DataWarning& told = *summary.add_warnings();
    told.set_kind(warning.kind());
    told.set_message(absl::StrCat(
        ClipWords(ToUtf8(warning.message()), kDataWarningBytesMax - more.size()), more));
  }
  return summary;
}

}  // namespace longhaul::session
