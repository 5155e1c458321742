#include "tests/conformance/movement/movement_suite.h"
#include "worker/movement/cuda/cuda_movement_module.h"
#include "worker/movement/emulated_movement.h"

namespace longhaul {
namespace {

MovementMaker Emulated(const EmulatedMovement::Options& options) {
  return [options] { return std::make_shared<EmulatedMovement>(options); };
}

INSTANTIATE_TEST_SUITE_P(Late, MovementSuite,
                         testing::Values(Emulated({.seed = 1}), Emulated({.seed = 2}),
                                         Emulated({.seed = 3})));
INSTANTIATE_TEST_SUITE_P(Threads, MovementSuite,
                         testing::Values(Emulated({.mode = EmulatedMovement::Mode::kThreads}),
                                         Emulated({.mode = EmulatedMovement::Mode::kThreads,
                                                   .up_bytes_per_second = 1e9,
                                                   .down_bytes_per_second = 2e9})));
INSTANTIATE_TEST_SUITE_P(Cuda, MovementSuite, testing::Values([] { return LoadCudaMovement({}); }));

}  // namespace
}  // namespace longhaul
