#include "common/rpc/allocator.h"

#include <malloc.h>

namespace longhaul {

bool TuneAllocatorForBulk() {
  // Messages stay on the heap, and the heap keeps what was freed. 32 MiB is the largest threshold
  // that every glibc takes.
  constexpr int kMapBytesMin = 32 << 20, kKeptBytes = 256 << 20, kGrowBytes = 16 << 20;
  const bool threshold = mallopt(M_MMAP_THRESHOLD, kMapBytesMin) == 1;
  const bool trim = mallopt(M_TRIM_THRESHOLD, kKeptBytes) == 1;
  const bool pad = mallopt(M_TOP_PAD, kGrowBytes) == 1;
  // Each heap keeps its own: with glibc's eight for each core, what idle threads freed adds up.
  const bool arenas = mallopt(M_ARENA_MAX, 2) == 1;
  return threshold && trim && pad && arenas;
}

}  // namespace longhaul
