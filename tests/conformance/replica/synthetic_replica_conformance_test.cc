#include "tests/conformance/replica/replica_suite.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul {
namespace {

std::unique_ptr<Replica> MakeSynthetic() {
  return SyntheticReplica::Create({.units = 3, .elements = 200, .initial = 1, .inner_delta = 0.5})
      .value();
}

INSTANTIATE_TEST_SUITE_P(Synthetic, ReplicaSuite,
                         testing::Values(ReplicaMaker{"synthetic", MakeSynthetic, false}));

}  // namespace
}  // namespace longhaul
