// What a rank process writes to its agent, a line each: HeartbeatRequest in proto JSON (progress,
// evaluations, failure), of rank 0 alone but for failures; and once a second, from every rank and
// whatever its training thread does, a RankStatus. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul {

struct RankStatus {
  int64_t step = 0;             // The last inner step that it has done.
  double expected_seconds = 0;  // Usual time of what it does now. 0: not known yet.
  bool in_collective = false;   // It is in an operation that needs all ranks of the pool.
  std::string waits_for;        // Of the coordinator, as "fragment 1 version 3". Empty: it works.
  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

using RankReport = std::variant<v1::HeartbeatRequest, RankStatus>;

// Lines of at most so many bytes; longer ones are malformed.
inline constexpr size_t kRankReportBytesMax = 64 << 10;

// With the newline. Control characters of waits_for become spaces.
std::string ToLine(const RankStatus& status);
// INVALID_ARGUMENT: neither of the two.
absl::StatusOr<RankReport> ParseRankReport(absl::string_view line);

}  // namespace longhaul
