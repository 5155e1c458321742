// Ranks that share a GPU, on an emulated runtime.
#include "cuda_runtime_api.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/testing/cuda_streams.h"
#include "tests/testing/stream_communicator.h"

namespace longhaul {
namespace {

struct EmulatedCudaBackend {
  static constexpr bool kRankOrderSums = true;
  static constexpr bool kTellsWhoLeft = true;
  static std::vector<int> Sizes() { return {1, 2, 3, 4, 8}; }
  static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size) {
    return MakeStreamCommunicators(size, MakeCudaStreams(0).value()).value();
  }
  static std::shared_ptr<std::byte> Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, bytes + 1, cudaHostAllocPortable), cudaSuccess);
    return {static_cast<std::byte*>(memory), [](std::byte* pointer) { cudaFreeHost(pointer); }};
  }
  static CallOptions Options(absl::Duration timeout) { return {.timeout = timeout}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(EmulatedCuda, CommunicatorSuite, EmulatedCudaBackend);

}  // namespace
}  // namespace longhaul
