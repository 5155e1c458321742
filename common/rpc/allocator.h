// Tunes the allocator for bulk transfer. By default glibc maps and unmaps memory for each message
// of 1 MiB, which costs a third of the receiver's throughput.
#pragma once

namespace longhaul {

// Call once at the beginning of main, before other threads start. Returns false if the allocator
// does not take such settings (sanitizers, a preloaded malloc). Then everything works, but slower.
bool TuneAllocatorForBulk();

// Gives memory that was freed back to the system, after something took much more than usual. Other
// threads may wait for it some milliseconds.
void ReturnFreedMemory();

}  // namespace longhaul
