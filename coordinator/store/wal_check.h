// A look at SQLite's write-ahead log (WAL) before SQLite sees it: SQLite takes the first frame that
// does not check for the end and drops what follows without a word, damaged or not.
// https://www.sqlite.org/fileformat2.html#walformat
//
// Every transaction is synced before the next begins (synchronous = FULL). So a frame of a
// transaction that another one follows was durable: if it does not check, it is damaged. The frames
// of the last transaction may be torn: it was not acknowledged. (A byte that changes in a last
// transaction that was cannot be told from that.) Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct WalContent {
  int64_t frames = 0;       // Of whole transactions.
  int64_t torn_frames = 0;  // Behind them, of one that never ended.
};

// Checks the bytes of a WAL; `path` is for messages. DATA_LOSS: damaged; names file, frame and byte.
absl::StatusOr<WalContent> CheckWal(absl::string_view wal, const std::string& path);

// What the database is with the transactions of its WAL: the bytes of a file that needs no WAL.
// DATA_LOSS: the WAL is damaged.
absl::StatusOr<std::string> MergeWal(std::string database, absl::string_view wal,
                                     const std::string& path);

}  // namespace longhaul
