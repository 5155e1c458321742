// The Communicator of ranks that are threads of one process and share a device. Its collectives are
// copies and sums that are queued on streams (device_streams.h), after everything that the ranks
// had queued when they called it. With it 2 to 64 ranks can run on one GPU, which NCCL refuses, or
// on the emulated device.
//
// Differences from the other implementations: buffers are memory of the device. A call that names a
// stream returns as soon as its part is queued there; works that the stream gets later may use the
// result and reuse the input. A call that names no stream waits.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/testing/device_streams.h"
#include "worker/collective/communicator.h"

namespace longhaul {

// The communicators of one group, element r for rank r; 1 to DeviceStreams::kSourcesMax of them.
// They end a group as those of MakeThreadCommunicators do. Errors: those of NewStream.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeStreamCommunicators(
    int size, std::shared_ptr<DeviceStreams> streams);

}  // namespace longhaul
