// The GraphRecorder of CUDA: part of the module longhaul_cuda_graphs, which links the CUDA half of
// libtorch.
#include "worker/engine/cuda_graph_recorder.h"

#include <utility>

#include "ATen/cuda/CUDAGraph.h"
#include "c10/cuda/CUDACachingAllocator.h"
#include "c10/cuda/CUDAGuard.h"
#include "c10/cuda/CUDAStream.h"

namespace longhaul {
namespace {

class CudaGraph : public DeviceGraph {
 public:
  CudaGraph(const at::cuda::MempoolId_t& pool, const std::function<void()>& work) {
    // Only this thread must not allocate or wait meanwhile. In the global mode, no thread of the
    // process may.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      End();
      throw;
    }
    graph_.capture_end();
  }
  void Launch() override { graph_.replay(); }

 private:
  // After an error. It made the capture invalid, too, which need not be told again.
  void End() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
    }
  }

  at::cuda::CUDAGraph graph_;
};

class CudaGraphRecorder : public GraphRecorder {
 public:
  explicit CudaGraphRecorder(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
        pool_(at::cuda::graph_pool_handle()) {}

  void WarmUp(const std::function<void()>& work) override {
    RunOn(stream_, work);
    warmed_up_ = true;
  }

  std::unique_ptr<DeviceGraph> Record(const std::function<void()>& work) override {
    // The allocator keeps what the stream used, for other work on that stream. There is none.
    if (std::exchange(warmed_up_, false)) c10::cuda::CUDACachingAllocator::emptyCache();
    const c10::cuda::CUDAStreamGuard guard(stream_);
    return std::make_unique<CudaGraph>(pool_, work);
  }

 private:
  const c10::cuda::CUDAStream stream_;
  const at::cuda::MempoolId_t pool_;
  // Since the last recording.
  bool warmed_up_ = false;
};

}  // namespace
}  // namespace longhaul

extern "C" __attribute__((visibility("default"))) longhaul::GraphRecorder*
longhaul_make_cuda_graph_recorder(int device) {
  return new longhaul::CudaGraphRecorder(static_cast<c10::DeviceIndex>(device));
}
