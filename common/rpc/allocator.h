// Tunes the allocator for bulk transfer. By default glibc maps and unmaps memory for each message
// of 1 MiB, which costs a third of the receiver's throughput.
#pragma once

namespace longhaul {

// Call once at the beginning of main, before other threads start. Returns false if the allocator
// does not take such settings (sanitizers, a preloaded malloc). Then everything works, but slower.
bool TuneAllocatorForBulk();

}  // namespace longhaul
