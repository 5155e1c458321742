// How fast two ranks of a node exchange, as Gloo does it between processes.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

// Bytes per second that each of two ranks receives while they reduce together, over the loopback
// address. Blocks for somewhat longer than `budget`. Errors: those of MakeGlooCommunicator and of
// Communicator.
absl::StatusOr<double> MeasureExchange(absl::Duration budget);

}  // namespace longhaul
