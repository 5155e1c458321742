#include "common/rpc/allocator.h"

#include <malloc.h>

namespace longhaul {

bool TuneAllocatorForBulk() {
  // Messages stay on the heap, and the heap keeps freed memory. 32 MiB is the largest threshold
  // that every glibc accepts.
  constexpr int kMapBytesMin = 32 << 20, kKeptBytes = 256 << 20, kGrowBytes = 16 << 20;
  const bool threshold = mallopt(M_MMAP_THRESHOLD, kMapBytesMin) == 1;
  const bool trim = mallopt(M_TRIM_THRESHOLD, kKeptBytes) == 1;
  const bool pad = mallopt(M_TOP_PAD, kGrowBytes) == 1;
  // Each heap keeps its own freed memory. glibc's default of eight heaps for each core would keep
  // too much for idle threads.
  const bool arenas = mallopt(M_ARENA_MAX, 2) == 1;
  return threshold && trim && pad && arenas;
}

void ReturnFreedMemory() { (void)malloc_trim(0); }

}  // namespace longhaul
