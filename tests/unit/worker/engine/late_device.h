// A device of torch that is none: its streams are an EmulatedStreams, which run as late as events
// allow. torch's streams, events and guards work on it (device type PrivateUse1), so that what the
// product does on a GPU's streams it does here.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "c10/core/Device.h"
#include "tests/testing/emulated_streams.h"

namespace longhaul {

inline const c10::Device kLateDevice(c10::DeviceType::PrivateUse1, 0);

// The process's one.
EmulatedStreams& LateStreams();
// The last member of kernels whose works are queued on these streams: runs what is left of them,
// while they can still be called.
struct LateWorksEnd {
  ~LateWorksEnd() { LateStreams().RunAll(); }
};
// The calling thread's stream of the device becomes a new one.
void TakeLateStream();
// The calling thread's stream.
void* CurrentLateStream();
// While it exists the calling thread's stream does not go on.
class HungLateStream {
 public:
  HungLateStream();
  ~HungLateStream();

 private:
  absl::Notification goes_on_;
  std::thread device_;
};
// torch's next `count` records and blocks of events succeed, then all fail, as on a GPU that has
// reported an error. Negative: none fails.
void FailLateEventsAfter(int count);

// Queues work on a stream, or, while the stream is recorded (late_graphs.h), adds it to the graph.
void SubmitLate(void* stream, std::function<void()> work);

// Tensors on the device, and torch's operations on them (late_kernels.cc). Once, before the first
// of them.
void RegisterLateKernels();
// Memory that is freed stays: for runs in which waits are missing.
void KeepLateMemory();
// How often torch's operations made a thread wait for its stream, since they brought values to the
// host.
int64_t LateWaits();

}  // namespace longhaul
