// Reads a log after the process ended, however it ended: checks every frame, tells a torn tail from
// damage.
//
// Frames must follow each other in sequence; the first that does not check is where the log ends,
// if that is possible: no acknowledged commit can lie behind it. It is not possible when a later
// frame, a later segment or a snapshot shows that the bad frame was durable once (durable_upto):
// then the disk lost or changed bytes, and recovery refuses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/digest.h"
#include "common/io/filesystem.h"
#include "coordinator/store/log.h"
#include "coordinator/store/log_format.h"

namespace longhaul {

struct RecoveredFrame {
  FrameType type = FrameType::kPart;
  uint64_t sequence = 0;
  LogPosition body;
  int64_t body_bytes = 0;
  Digest128 body_digest;
};

struct RecoveredLog {
  LogStart start;
  std::vector<RecoveredFrame> frames;  // Whole and verified, in sequence.
  int64_t torn_bytes = 0;              // Cut off behind the last of them.
};

struct LogRecoveryOptions {
  uint64_t salt = 0;
  // Frames of a smaller sequence are known to have been durable (from snapshots).
  uint64_t durable_upto = 0;
};

// Cuts off a torn tail, durably. DATA_LOSS: damage; names the file and the offset. Other errors:
// the file system's.
absl::StatusOr<RecoveredLog> RecoverLog(FileSystem& fs, const std::string& dir,
                                        const LogRecoveryOptions& options);

}  // namespace longhaul
