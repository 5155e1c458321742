#include "tests/conformance/communicator_suite.h"
#include "tests/testing/thread_communicator.h"

namespace longhaul {
namespace {

struct ThreadBackend {
  static constexpr bool kRankOrderSums = true;
  static constexpr bool kTellsWhoLeft = true;
  static std::vector<int> Sizes() { return {1, 2, 3, 4}; }
  static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size) {
    return MakeThreadCommunicators(size);
  }
  static std::shared_ptr<std::byte> Allocate(size_t bytes) {
    return {reinterpret_cast<std::byte*>(new double[bytes / sizeof(double) + 1]),
            [](std::byte* memory) { delete[] reinterpret_cast<double*>(memory); }};
  }
  static CallOptions Options(absl::Duration timeout) { return {.timeout = timeout}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Thread, CommunicatorSuite, ThreadBackend);

}  // namespace
}  // namespace longhaul
