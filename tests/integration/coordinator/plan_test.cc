// PlanJob: what a job would take, with the pools that are connected or at sites of the request.
#include <gmock/gmock.h>

#include "tests/integration/coordinator/coordinator_fixture.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

class PlanJobTest : public CoordinatorFixture {
 protected:
  absl::StatusOr<v1::PlanJobResponse> Plan(const v1::JobSpec& spec, const v1::Sites* sites) {
    v1::PlanJobRequest request;
    *request.mutable_spec() = spec;
    if (sites != nullptr) *request.mutable_sites() = *sites;
    v1::PlanJobResponse response;
    return Finished(jobs_->PlanJob(Context().get(), request, &response), response);
  }
};

TEST_F(PlanJobTest, PlansForConnectedPools) {
  const v1::JobSpec spec = LargeSpec("planned", 0);
  const auto nobody = Plan(spec, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(nobody.status())) << nobody.status();
  EXPECT_EQ(ReasonOf(nobody.status()), "NO_POOL");
  HandPool site(address(), "site-a");
  ASSERT_TRUE(site.Join().ok());
  const auto planned = Plan(spec, nullptr);
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_EQ(planned->forecast().pools_size(), 1);
  EXPECT_EQ(planned->forecast().pools(0).name(), "site-a");
  EXPECT_GT(planned->forecast().seconds(), 0);
  EXPECT_GT(planned->forecast().coordinator_memory_bytes(), 0);
  EXPECT_EQ(planned->sites().pools(0).name(), "site-a");
  EXPECT_TRUE(planned->sites().pools(0).link().assumed());
  std::string assumed;
  for (const std::string& text : planned->forecast().assumptions()) assumed += text + "\n";
  EXPECT_THAT(assumed, HasSubstr("nominal")) << "it has not trained";
  // Nothing was submitted.
  EXPECT_TRUE(absl::IsNotFound(Get("planned").status()));
}

TEST_F(PlanJobTest, PlansForSitesOfTheRequest) {
  v1::Sites sites;
  sites.add_pools()->set_tokens_per_second(1000);
  sites.mutable_pools(0)->set_copies(3);
  const auto planned = Plan(LargeSpec("planned", 0), &sites);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->forecast().pools(0).copies(), 3);
  EXPECT_EQ(planned->forecast().pools(0).tokens_per_second(), 1000);
}

TEST_F(PlanJobTest, NamesTheFieldsThatAreWrong) {
  const auto field_of = [](const absl::Status& status) {
    const auto violations = FieldViolationsOf(status);
    return violations.empty() ? status.ToString() : violations[0].field;
  };
  v1::JobSpec spec = LargeSpec("planned", 0);
  v1::Sites sites;
  sites.add_pools()->set_machine("abacus");
  EXPECT_EQ(field_of(Plan(spec, &sites).status()), "sites.pools[0].machine");
  sites.mutable_pools(0)->clear_machine();
  sites.mutable_pools(0)->set_copies(5000);
  EXPECT_EQ(field_of(Plan(spec, &sites).status()), "sites.pools[0].copies");
  sites.clear_pools();
  EXPECT_EQ(field_of(Plan(spec, &sites).status()), "sites.pools");
  EXPECT_EQ(field_of(Plan(Spec("synthetic"), &sites).status()), "model");
  spec.mutable_sync()->set_h(-1);
  EXPECT_EQ(field_of(Plan(spec, &sites).status()), "sync.h");
}

}  // namespace
}  // namespace longhaul
