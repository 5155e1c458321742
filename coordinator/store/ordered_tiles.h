// The tiles of a fragment, worked on several threads and finished one by one: what each tile needs
// alone runs beside other tiles, what all of them share (a digest, sums, the log) sees them in
// order. So results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace longhaul {

// Does something with a tile. `worker` in [0, threads): calls of one worker follow each other, so
// it may index memory to work in.
using TileWork = absl::FunctionRef<absl::Status(int64_t tile, int worker)>;

// Calls work(tile) for tiles [0, tiles), of at most `threads` at one time, and after it, on the
// same thread, finish(tile): those in the order of the tiles. Returns the first error by that
// order; nothing is finished after it, though later tiles may have been worked. Blocks; threads
// beyond the calling one live for the length of the call.
absl::Status ForTilesInOrder(int64_t tiles, int threads, TileWork work, TileWork finish);

// A thread for each core, at most 8: by then memory is what a round waits for.
int TileThreads();

}  // namespace longhaul
