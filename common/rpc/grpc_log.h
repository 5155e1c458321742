// What the gRPC library has to say goes to the program's log instead of raw lines on standard error.
#pragma once

#include "absl/time/time.h"
#include "common/logging/logging.h"

namespace longhaul {

// Many broken connections make so many lines at most; the next line tells how many more there were.
inline constexpr int kGrpcLogLinesMax = 10;
inline constexpr absl::Duration kGrpcLogInterval = absl::Seconds(10);

// For the whole process: gRPC has one function for it. Call from main or what it calls, before the
// first channel or server; the logger is kept to the process's end. What gRPC calls an error is a
// warning here: calls report their own errors.
void SendGrpcLogTo(const Logger& log);

}  // namespace longhaul
