// Round trip, clocks and rates between here and the coordinator, as small calls see them.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/client.h"

namespace longhaul::cli {

struct LinkFacts {
  v1::DescribeResponse server;
  // Time of an empty call: the median of five.
  absl::Duration round_trip;
  // Coordinator's clock minus ours, within half a round trip.
  absl::Duration clock_ahead;
  // Of one connection, without the round trips. Each is measured for at most about 1.5 s.
  double bytes_per_second_up = 0, bytes_per_second_down = 0;
};

// Blocks for some seconds. UNIMPLEMENTED: the coordinator is older than these calls.
absl::StatusOr<LinkFacts> MeasureLink(Client& client);

}  // namespace longhaul::cli
