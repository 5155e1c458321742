// Round trip, clocks and rates between here and the coordinator, as small calls see them.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "coordinator/cli/client.h"

namespace longhaul::cli {

struct LinkFacts {
  v1::DescribeResponse server;
  // Time of an empty call: the median of five.
  absl::Duration round_trip;
  // Coordinator's clock minus ours, within half a round trip.
  absl::Duration clock_ahead;
  // Of one connection, round trips included, so that the link has at least this rate. Each is
  // measured for at most about 1.5 s.
  double bytes_per_second_up = 0, bytes_per_second_down = 0;
};

// The best rate, in bytes a second, of call(bytes) with sizes that double up to 1 MiB. Calls for
// about 1.5 s at most. Blocks; errors are those of the call.
absl::StatusOr<double> RateOf(const Clock& clock, const std::function<absl::Status(int)>& call);

// Blocks for some seconds. UNIMPLEMENTED: the coordinator is older than these calls.
absl::StatusOr<LinkFacts> MeasureLink(Client& client, const Clock& clock);

}  // namespace longhaul::cli
