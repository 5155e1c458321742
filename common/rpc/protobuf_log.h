// What libprotobuf has to say (a message from outside that is no UTF-8, or does not parse) goes to
// the program's log instead of raw lines on standard error.
#pragma once

#include "absl/time/time.h"
#include "common/logging/logging.h"

namespace longhaul {

// A peer that sends malformed messages makes one line in so long; the line tells how many more
// there were.
inline constexpr absl::Duration kProtobufLogInterval = absl::Seconds(10);

// For the whole process: libprotobuf has one handler. Call once, from main or what it calls, after
// the logger is made; the logger is kept to the process's end. Lines below warnings are dropped. A
// fatal line is logged, then libprotobuf ends the process.
void SendProtobufLogTo(const Logger& log);

}  // namespace longhaul
