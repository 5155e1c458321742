#include "worker/engine/device_graph.h"

#include "c10/core/Event.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "worker/engine/cuda_graph_recorder.h"

namespace longhaul {

void RunOn(const c10::Stream& stream, const std::function<void()>& work) {
  const c10::Stream outer =
      c10::impl::VirtualGuardImpl(stream.device_type()).getStream(stream.device());
  c10::Event before(stream.device_type()), after(stream.device_type());
  before.record(outer);
  before.block(stream);
  {
    const c10::StreamGuard guard(stream);
    work();
  }
  after.record(stream);
  after.block(outer);
}

absl::StatusOr<std::unique_ptr<GraphRecorder>> MakeCudaGraphRecorder(c10::Device device,
                                                                     const std::string& folder) {
  LH_ASSIGN_OR_RETURN(
      void* make, LoadCudaFunction("longhaul_cuda_graphs", kLonghaulMakeCudaGraphRecorder, folder));
  return std::unique_ptr<GraphRecorder>(
      reinterpret_cast<LonghaulMakeCudaGraphRecorder*>(make)(device.index()));
}

}  // namespace longhaul
