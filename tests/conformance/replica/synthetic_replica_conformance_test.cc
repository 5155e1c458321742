#include "tests/conformance/replica/replica_suite.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul {
namespace {

INSTANTIATE_TEST_SUITE_P(Synthetic, ReplicaSuite,
                         testing::Values(ReplicaMaker{"synthetic", [] {
                                                        return SyntheticReplica::Create(
                                                                   {.units = 3,
                                                                    .elements = 200,
                                                                    .initial = 1,
                                                                    .inner_delta = 0.5})
                                                            .value();
                                                      }}));

}  // namespace
}  // namespace longhaul
