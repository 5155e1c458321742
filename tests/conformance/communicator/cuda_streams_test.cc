// Ranks of one process that share a GPU.
#include "tests/testing/cuda_streams.h"

#include "cuda_runtime_api.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/testing/stream_communicator.h"

namespace longhaul {
namespace {

struct CudaStreamBackend {
  static constexpr bool kRankOrderSums = true;
  static constexpr bool kTellsWhoLeft = true;
  static std::vector<int> Sizes() {
    return CudaDeviceCount().ok() ? std::vector<int>{1, 2, 3, 4, 8} : std::vector<int>{};
  }
  static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size) {
    auto streams = LoadCudaStreams(0);
    EXPECT_EQ(streams.status(), absl::OkStatus());
    if (!streams.ok()) return std::vector<std::unique_ptr<Communicator>>(size);
    auto group = MakeStreamCommunicators(size, *streams);
    EXPECT_EQ(group.status(), absl::OkStatus());
    if (!group.ok()) return std::vector<std::unique_ptr<Communicator>>(size);
    return *std::move(group);
  }
  // Host and device use the memory in turn. While the work of one rank runs, the host code of no
  // rank may touch managed memory, so each buffer is host memory that the device can read.
  static std::shared_ptr<std::byte> Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, bytes + 1, cudaHostAllocPortable), cudaSuccess);
    return {static_cast<std::byte*>(memory), [](std::byte* pointer) { cudaFreeHost(pointer); }};
  }
  static CallOptions Options(absl::Duration timeout) { return {.timeout = timeout}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(CudaStreams, CommunicatorSuite, CudaStreamBackend);

}  // namespace
}  // namespace longhaul
