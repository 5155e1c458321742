// The part of the CUDA runtime's functions that Movement and the collectives use, on
// EmulatedStreams: memory is that of the host, and works run as late, and as much out of order, as
// streams and events allow. A test that links this instead of the runtime drives the code of a real
// device without one.
//
// As the runtime does: cudaMemset of device memory only enqueues on the default stream, for which
// the other streams do not wait; freeing memory waits for all streams; an event that was never
// recorded is reached; a thread's last error stays until it is asked for, also that of an event
// that is not reached. There is one device. An allocation above kEmulatedBytesMax fails. Streams
// must be non-blocking. Thread-safe.
#pragma once

#include <cstdint>

namespace longhaul::testing_support {

inline constexpr int64_t kEmulatedBytesMax = int64_t{1} << 40;

// Lets that many calls that enqueue succeed; the next one fails once, with
// cudaErrorMemoryAllocation.
void FailEmulatedCudaAfter(int calls);

}  // namespace longhaul::testing_support
