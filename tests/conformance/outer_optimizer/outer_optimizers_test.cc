#include "coordinator/outer/average.h"
#include "coordinator/outer/nesterov.h"
#include "coordinator/outer/sgd.h"
#include "tests/conformance/outer_optimizer_suite.h"

namespace longhaul {
namespace {

INSTANTIATE_TEST_SUITE_P(Nesterov, OuterOptimizerSuite,
                         testing::Values([] { return std::make_unique<Nesterov>(0.7f, 0.9f); }));
INSTANTIATE_TEST_SUITE_P(Sgd, OuterOptimizerSuite,
                         testing::Values([] { return std::make_unique<Sgd>(0.7f); }));
INSTANTIATE_TEST_SUITE_P(Average, OuterOptimizerSuite,
                         testing::Values([] { return std::make_unique<Average>(); }));

}  // namespace
}  // namespace longhaul
