// Checks SQLite's write-ahead log (WAL) before SQLite sees it. SQLite takes the first bad frame for
// the end, and silently drops all frames after it, damaged or not.
// https://www.sqlite.org/fileformat2.html#walformat
//
// Every transaction is synced before the next begins (synchronous = FULL). So if another
// transaction follows a frame, the frame was durable; if it is bad, it is damaged. The frames of
// the last transaction may be torn, since it was not acknowledged. (A byte that changed later in an
// acknowledged last transaction looks the same.) Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// Checks the bytes of a WAL, and returns how many frames of whole transactions it has. `path` is
// for messages. DATA_LOSS: damaged; the error names file, frame and byte.
absl::StatusOr<int64_t> CheckWal(absl::string_view wal, const std::string& path);

// Applies the transactions of the WAL to the database. Returns the bytes of a file that needs no
// WAL. DATA_LOSS: the WAL is damaged.
absl::StatusOr<std::string> MergeWal(std::string database, absl::string_view wal,
                                     const std::string& path);

}  // namespace longhaul
