#include "coordinator/access/door.h"

#include "common/rpc/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr char kList[] = "/longhaul.v1.JobService/ListJobs";
constexpr char kJoin[] = "/longhaul.v1.PoolService/Join";
const absl::Time kNow = absl::FromUnixSeconds(1700000000);

// Tokens are tried over real gRPC (tests/integration/coordinator/access_test).
TEST(DoorTest, WithoutTokensACertificateDoes) {
  Door door({});
  EXPECT_EQ(door.Admit(kList, {.common = "carol"}, "", kNow), absl::OkStatus());
  EXPECT_EQ(door.Admit(kJoin, {.dns = "site-a"}, "", kNow), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnauthenticated(door.Admit(kList, {}, "Bearer x", kNow)));
  EXPECT_TRUE(absl::IsUnauthenticated(door.Admit(kJoin, {.common = "carol"}, "", kNow)));
}

TEST(DoorTest, RefusalsHaveReasonAndHint) {
  Door door({.calls_per_second = 1e-3});
  const absl::Status nobody = door.Admit(kJoin, {}, "", kNow);
  EXPECT_EQ(ErrorInfoOf(nobody)->reason, "CERTIFICATE_NEEDED");
  EXPECT_THAT(ErrorInfoOf(nobody)->metadata.at("hint"), HasSubstr("--tls-certificate"));
  EXPECT_EQ(ErrorInfoOf(door.Admit("/x/y", {.dns = "a"}, "", kNow))->reason, "METHOD_UNKNOWN");
  absl::Status often;
  for (int i = 0; i < 3; ++i) often = door.Admit(kJoin, {.dns = "site-a"}, "", kNow);
  EXPECT_EQ(ErrorInfoOf(often)->reason, "TOO_MANY_CALLS");
  EXPECT_GT(RetryDelayOf(often), absl::Seconds(100));
}

TEST(DoorTest, AJobIsItsOwnersAndAdminsAndEverybodysWhenNobodyIsKnown) {
  const JobCaller ann{.who = "token:ann", .any_job = false}, root{.who = "token:root"};
  EXPECT_EQ(ann.MayChange("mine", "token:ann"), absl::OkStatus());
  EXPECT_EQ(ann.MayChange("old", ""), absl::OkStatus());
  EXPECT_EQ(root.MayChange("mine", "token:ann"), absl::OkStatus());
  const absl::Status other = ann.MayChange("bobs", "token:bob");
  EXPECT_TRUE(absl::IsPermissionDenied(other));
  EXPECT_EQ(ErrorInfoOf(other)->reason, "NOT_YOUR_JOB");
  EXPECT_EQ(ErrorInfoOf(other)->metadata.at("owner"), "token:bob");
}

TEST(DoorTest, WhatIsNotDeclaredIsRefused) {
  Door door({});
  for (const char* method : {"", "/", "/longhaul.v1.JobService/",
                             "/longhaul.v1.JobService/ListJobs2", "/other.Service/ListJobs"}) {
    EXPECT_TRUE(absl::IsUnimplemented(door.Admit(method, {.dns = "site-a"}, "", kNow))) << method;
    EXPECT_TRUE(absl::IsUnauthenticated(door.Admit(method, {}, "", kNow))) << method;
  }
}

TEST(DoorTest, CountsTheCallsOfEachCaller) {
  Door door({.calls_per_second = 1});
  const CertificateNames site_a{.dns = "site-a"}, site_b{.dns = "site-b"};
  EXPECT_EQ(door.Admit(kJoin, site_a, "", kNow), absl::OkStatus());
  EXPECT_EQ(door.Admit(kJoin, site_a, "", kNow), absl::OkStatus());
  const absl::Status third = door.Admit(kJoin, site_a, "", kNow);
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_THAT(std::string(third.message()), HasSubstr("try again in 1s"));
  EXPECT_EQ(door.Admit(kJoin, site_b, "", kNow), absl::OkStatus());
  // Bulk transfers are bounded elsewhere.
  EXPECT_EQ(door.Admit("/longhaul.v1.SyncService/PushFragment", site_a, "", kNow),
            absl::OkStatus());
  EXPECT_EQ(door.Admit(kJoin, site_a, "", kNow + absl::Seconds(1)), absl::OkStatus());
}

}  // namespace
}  // namespace longhaul::coordinator
