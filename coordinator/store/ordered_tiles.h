// Works on the tiles of a fragment in several threads, and finishes them one by one. What only one
// tile needs runs beside other tiles. What all tiles share (a digest, sums, the log) sees them in
// order. So results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace longhaul {

// Does something with a tile. `worker` is in [0, threads). Calls with the same worker follow each
// other, so it may be an index of working memory.
using TileWork = absl::FunctionRef<absl::Status(int64_t tile, int worker)>;

// Calls work(tile) for tiles [0, tiles), for at most `threads` of them at a time. After it, the
// same thread calls finish(tile), in the order of the tiles. Returns the first error in that order.
// No tile is finished after it, though later tiles may have been worked on. Blocks. Threads besides
// the calling one live as long as the call.
absl::Status ForTilesInOrder(int64_t tiles, int threads, TileWork work, TileWork finish);

// One thread for each core, but at most 8: with 8, memory bandwidth is what limits a round.
int TileThreads();

}  // namespace longhaul
