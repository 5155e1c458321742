// Reads a log after the process ended, however it ended: checks every frame, tells a torn tail from
// damage.
//
// A file of the log had its header and its full size before it had its name, so one that lacks them
// is damaged, and so is a log without files or with a gap between their numbers. Frames must follow
// each other in sequence; the first that does not check is where the log ends, if that is possible:
// no acknowledged commit can lie behind it. It is not possible when a later frame or a snapshot
// shows that the bad frame was durable once (durable_upto), or when a file was cut off: then the
// disk lost or changed bytes, and recovery refuses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "coordinator/store/log.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

struct ScannedLog {
  LogStart start;
  std::vector<LogFrame> frames;  // Whole and verified, in sequence.
  int64_t torn_bytes = 0;        // Behind the last of them.
  // Files that hold nothing but torn frames, last first, and what an interrupted maker left.
  std::vector<std::string> leftovers;
};

struct LogScanOptions {
  uint64_t salt = 0;
  // Frames of a smaller sequence are known to have been durable (from snapshots).
  uint64_t durable_upto = 0;
  // Nobody goes on with the log: its files are read as they are. Else they are synced first.
  bool read_only = false;
};

// Changes nothing. DATA_LOSS: damage; FAILED_PRECONDITION: another format. Both name the file, and
// the offset. Other errors: the file system's.
absl::StatusOr<ScannedLog> ScanLog(FileSystem& fs, const std::string& dir,
                                   const LogScanOptions& options);

// Removes the leftovers of a scan, durably. Before that no Log may go on from its start.
absl::Status RemoveLeftovers(FileSystem& fs, const std::string& dir, const ScannedLog& log);

// Both.
absl::StatusOr<ScannedLog> RecoverLog(FileSystem& fs, const std::string& dir,
                                      const LogScanOptions& options);

}  // namespace longhaul
