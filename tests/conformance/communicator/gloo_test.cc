#include <signal.h>

#include "tests/conformance/communicator_suite.h"
#include "tests/testing/in_process_rendezvous.h"
#include "worker/collective/gloo_communicator.h"

namespace longhaul {
namespace {

// Ranks are threads, but each has its own gloo context: all data crosses loopback TCP.
struct GlooBackend {
  static constexpr bool kRankOrderSums = true;
  static constexpr bool kTellsWhoLeft = true;
  static std::vector<int> Sizes() { return {1, 2, 3, 4}; }
  static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size) {
    signal(SIGPIPE, SIG_IGN);
    // Ranks that find it taken add alone.
    static ThreadTeam team(3);
    InProcessRendezvous rendezvous(size);
    std::vector<std::unique_ptr<Communicator>> group(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = MakeGlooCommunicator({.rank = rank,
                                                  .size = size,
                                                  .rendezvous = &rendezvous,
                                                  .timeout = kAmple,
                                                  .team = &team});
        ASSERT_EQ(communicator.status(), absl::OkStatus());
        group[rank] = *std::move(communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return group;
  }
  static std::shared_ptr<std::byte> Allocate(size_t bytes) {
    return {reinterpret_cast<std::byte*>(new double[bytes / sizeof(double) + 1]),
            [](std::byte* memory) { delete[] reinterpret_cast<double*>(memory); }};
  }
  static CallOptions Options(absl::Duration timeout) { return {.timeout = timeout}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Gloo, CommunicatorSuite, GlooBackend);

}  // namespace
}  // namespace longhaul
