#include "worker/agent/rank_report.h"

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {
namespace {

constexpr absl::string_view kStatus = "status ";

absl::Status Malformed() { return absl::InvalidArgumentError("a malformed report of a rank"); }

}  // namespace

std::string ToLine(const RankStatus& status) {
  std::string waits_for = status.waits_for;
  for (char& c : waits_for) {
    if (absl::ascii_iscntrl(c)) c = ' ';
  }
  return absl::StrFormat("%s%d %.6f %d %d %s\n", kStatus, status.step, status.expected_seconds,
                         status.in_collective ? 1 : 0, status.damaged_pulls, waits_for);
}

absl::StatusOr<RankReport> ParseRankReport(absl::string_view line) {
  if (line.size() > kRankReportBytesMax) return Malformed();
  line = absl::StripSuffix(line, "\n");
  if (!absl::ConsumePrefix(&line, kStatus)) {
    v1::HeartbeatRequest report;
    if (!google::protobuf::util::JsonStringToMessage(std::string(line), &report).ok()) {
      return Malformed();
    }
    return report;
  }
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 4));
  RankStatus status;
  int collective = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[0], &status.step) ||
      !absl::SimpleAtod(words[1], &status.expected_seconds) ||
      !absl::SimpleAtoi(words[2], &collective) ||
      !absl::SimpleAtoi(words[3], &status.damaged_pulls) || status.step < 0 ||
      !std::isfinite(status.expected_seconds) || status.expected_seconds < 0) {
    return Malformed();
  }
  status.in_collective = collective != 0;
  status.waits_for = std::string(words[4]);
  return status;
}

}  // namespace longhaul
