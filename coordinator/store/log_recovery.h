// Reads a log after its process ended in any way. Checks every frame, and tells a torn end from
// damage.
//
// A file of the log gets its name only with a header and its full size. So a file that lacks them
// is damaged; so is a log without files, or with a gap between the files' numbers. Frames must
// follow each other in sequence. The log ends at the first bad frame, since no acknowledged commit
// can lie after it, except when
// - a later frame or a snapshot shows that the bad frame was durable once (durable_upto), or
// - a file was cut off.
// Then the disk lost or changed bytes, and recovery refuses. With leave_out_parts a part whose
// header is good and whose body is not is left out instead: only the commit of its round needs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "coordinator/store/log.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

struct DamagedFrame {
  uint64_t sequence = 0;
  // A DATA_LOSS with file and offset.
  absl::Status status;
};

struct ScannedLog {
  LogStart start;
  // Whole and verified, in sequence.
  std::vector<LogFrame> frames;
  // With leave_out_parts: parts that were durable and are damaged. They are not among `frames`.
  std::vector<DamagedFrame> damaged;
  // Bytes after the last frame.
  int64_t torn_bytes = 0;
  // Files that hold only torn frames, last first, and files that an interrupted maker left.
  std::vector<std::string> leftovers;
};

struct LogScanOptions {
  uint64_t salt = 0;
  // Frames of a smaller sequence are known to have been durable (from snapshots).
  uint64_t durable_upto = 0;
  // True: the log will not be continued, so its files are read as they are. False: they are synced
  // first.
  bool read_only = false;
  // The caller looks at ScannedLog::damaged.
  bool leave_out_parts = false;
};

// Changes nothing. DATA_LOSS: damage. FAILED_PRECONDITION: another format. Both name the file and
// the offset. Other errors: those of the file system.
absl::StatusOr<ScannedLog> ScanLog(FileSystem& fs, const std::string& dir,
                                   const LogScanOptions& options);

// Removes the leftovers of a scan, durably. A Log may continue only after this.
absl::Status RemoveLeftovers(FileSystem& fs, const std::string& dir, const ScannedLog& log);

}  // namespace longhaul
