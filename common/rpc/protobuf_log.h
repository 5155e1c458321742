// Sends the messages of libprotobuf (a message from outside that is not UTF-8, or does not parse)
// to the program's log, instead of raw lines on standard error.
#pragma once

#include "absl/time/time.h"
#include "common/logging/logging.h"

namespace longhaul {

// A peer that sends malformed messages causes at most one line in this time. The line says how many
// were left out.
inline constexpr absl::Duration kProtobufLogInterval = absl::Seconds(10);

// Works for the whole process, since libprotobuf has only one handler. Call it once, from main or a
// function that main calls, after the logger is made. The logger is kept until the process ends.
// Lines below warnings are dropped. A fatal line is logged, then libprotobuf ends the process.
void SendProtobufLogTo(const Logger& log);

}  // namespace longhaul
