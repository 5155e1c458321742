// NCCL refuses two ranks on one GPU, so this runs the suite with one rank. It tests the calls,
// their checks, the waits and the counters, but not that peers talk.
#include "cuda_runtime_api.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/testing/in_process_rendezvous.h"
#include "worker/collective/cuda_module.h"

namespace longhaul {
namespace {

struct NcclBackend {
  static constexpr bool kRankOrderSums = false;
  static constexpr bool kTellsWhoLeft = false;
  static std::vector<int> Sizes() {
    return CudaDeviceCount().ok() ? std::vector<int>{1} : std::vector<int>{};
  }
  static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size) {
    InProcessRendezvous rendezvous(size);
    auto communicator = MakeNcclCommunicatorFromModule(
        {.size = size, .rendezvous = &rendezvous, .timeout = kAmple});
    EXPECT_EQ(communicator.status(), absl::OkStatus());
    std::vector<std::unique_ptr<Communicator>> group(1);
    if (communicator.ok()) group[0] = *std::move(communicator);
    return group;
  }
  static std::shared_ptr<std::byte> Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaHostAlloc(&memory, bytes + 1, cudaHostAllocPortable), cudaSuccess);
    return {static_cast<std::byte*>(memory), [](std::byte* pointer) { cudaFreeHost(pointer); }};
  }
  static CallOptions Options(absl::Duration timeout) { return {.timeout = timeout}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Nccl, CommunicatorSuite, NcclBackend);

}  // namespace
}  // namespace longhaul
