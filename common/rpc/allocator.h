// Tunes the allocator for bulk transfer. By default glibc maps and unmaps memory for each message
// of 1 MiB, which costs a third of the receiver's throughput.
#pragma once

#include <cstddef>

namespace longhaul {

// Call once at the beginning of main, before other threads start. Returns false if the allocator
// does not take such settings (sanitizers, a preloaded malloc). Then everything works, but slower.
bool TuneAllocatorForBulk();

// Gives freed memory back to the system if the allocator keeps at least `bytes_min` of it. Freed
// memory between objects that live is not given back by itself. Returns whether it did.
// Thread-safe; other threads may wait for memory meanwhile, for less than 0.1 s per gigabyte.
bool ReturnFreeMemory(size_t bytes_min);

}  // namespace longhaul
