// Work of a device that is recorded once and then enqueued again and again, in one call for many
// kernels: a CUDA graph. The recorded kernels always use the same addresses and sizes. An
// interface: CUDA's is in a module that is loaded if there is a device; tests record on an emulated
// device.
//
// Called from one thread. Throws as torch does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "c10/core/Device.h"
#include "c10/core/Stream.h"

namespace longhaul {

class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Enqueues the recorded work on the current stream.
  virtual void Launch() = 0;
};

class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;

  // Runs `work` on the stream on which Record works (RunOn). Call it before the first recording of
  // the same operators: what libraries prepare at a first use cannot be recorded.
  virtual void WarmUp(const std::function<void()>& work) = 0;

  // Calls `work`. What it enqueues is recorded instead of run; it cannot wait for the device.
  // Memory that it allocates is the recorder's, and stays as long as the recorder's graphs. What is
  // freed of it may be used by later recordings. So graphs must be launched in the order of their
  // recording, as far as one uses what another one made.
  virtual std::unique_ptr<DeviceGraph> Record(const std::function<void()>& work) = 0;
};

// Runs `work` with `stream` as the current one: what it enqueues comes after what the current
// stream was given, and before what that is given later.
void RunOn(const c10::Stream& stream, const std::function<void()>& work);

// The recorder of the module longhaul_cuda_graphs. Errors and `folder`: see LoadCudaFunction.
absl::StatusOr<std::unique_ptr<GraphRecorder>> MakeCudaGraphRecorder(
    c10::Device device, const std::string& folder = "");

}  // namespace longhaul
