// Lines for this program's standard error, through a queue (line_queue.h): a reader of it that
// stands still holds up nobody. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/logging/line_queue.h"

namespace longhaul {

// How long the end of a program waits for a reader of its last lines.
inline constexpr absl::Duration kLastLinesPatience = absl::Seconds(2);

// A line with its end. It is written with one call, so that lines of several processes on one
// terminal or in one file are not mixed. Never blocks. An important line has some room when others
// have none.
void WriteToStandardError(std::string line, bool important = false);
// What is written in place of lines that were dropped. The last one counts.
void SetStandardErrorNotice(LineQueue::Notice notice);
// Waits until all lines are written, at most `patience`. Call it before the program ends.
void FlushStandardError(absl::Duration patience = kLastLinesPatience);
// How many lines were dropped.
int64_t StandardErrorLinesDropped();

}  // namespace longhaul
