// Sends the messages of the gRPC library to the program's log, instead of raw lines on standard
// error.
#pragma once

#include "absl/time/time.h"
#include "common/logging/logging.h"

namespace longhaul {

// Many broken connections make at most so many lines. What one line of gRPC's source says again
// and again, as of clients that do not trust a new authority, is told more and more seldom
// (RepeatLimit). A line says how many were left out before it.
inline constexpr int kGrpcLogLinesMax = 10;
inline constexpr absl::Duration kGrpcLogInterval = absl::Seconds(10);
inline constexpr absl::Duration kGrpcRepeatsLongest = absl::Minutes(10);

// Works for the whole process, since gRPC has only one log function. Call it from main or a
// function that main calls, before the first channel or server. The logger is kept until the
// process ends. Errors of gRPC become warnings, since calls report their own errors.
void SendGrpcLogTo(const Logger& log);

}  // namespace longhaul
