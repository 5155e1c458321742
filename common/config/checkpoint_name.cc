#include "common/config/checkpoint_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace longhaul {
namespace {

// A name has at most 63 bytes, and an id fewer.
constexpr size_t kJobBytesMax = 63;

}  // namespace

std::optional<CheckpointName> ParseCheckpointName(absl::string_view text) {
  CheckpointName name;
  const size_t at = text.find('@');
  const absl::string_view job = text.substr(0, at);
  const bool plain = std::all_of(job.begin(), job.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
  if (job.empty() || job.size() > kJobBytesMax || !plain) return std::nullopt;
  name.job = std::string(job);
  if (at == absl::string_view::npos) return name;
  const absl::string_view step = text.substr(at + 1);
  int64_t number = 0;
  const bool digits = std::all_of(step.begin(), step.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(step, &number)) return std::nullopt;
  name.step = number;
  return name;
}

}  // namespace longhaul
