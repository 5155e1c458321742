// What a rank process writes to its agent, one line each. HeartbeatRequest in proto JSON has
// progress, evaluations and failures; only rank 0 writes it, except that every rank reports
// failures. RankStatus comes once a second from every rank, whatever its training thread does.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul {

struct RankStatus {
  // The last inner step that it has done.
  int64_t step = 0;
  // Usual time of what it does now. 0: not known yet.
  double expected_seconds = 0;
  // It is in an operation that needs all ranks of the pool.
  bool in_collective = false;
  // Attempts to pull whose bytes were damaged, since its start.
  int64_t damaged_pulls = 0;
  // What it needs from the coordinator, for example "fragment 1 version 3". Empty: it works.
  std::string waits_for;
  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

using RankReport = std::variant<v1::HeartbeatRequest, RankStatus>;

inline constexpr absl::Duration kRankStatusEach = absl::Seconds(1);

// Lines of more bytes are malformed.
inline constexpr size_t kRankReportBytesMax = 64 << 10;

// With the newline. Control characters of waits_for become spaces.
std::string ToLine(const RankStatus& status);
// INVALID_ARGUMENT: neither of the two.
absl::StatusOr<RankReport> ParseRankReport(absl::string_view line);

}  // namespace longhaul
