#include "worker/collective/communicator_factory.h"

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/cuda_module.h"
#include "worker/collective/in_process_rendezvous.h"

namespace longhaul {
namespace {

constexpr CallOptions kOptions{.timeout = absl::Seconds(60)};

TEST(CommunicatorFactoryTest, MakesAThreadCommunicatorOfOneRankOnly) {
  auto communicator = MakeCommunicator({.kind = CommunicatorKind::kThread});
  ASSERT_TRUE(communicator.ok());
  EXPECT_TRUE((*communicator)->Barrier(kOptions).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeCommunicator({.kind = CommunicatorKind::kThread, .size = 2}).status()));
}

TEST(CommunicatorFactoryTest, MakesAGlooCommunicator) {
  signal(SIGPIPE, SIG_IGN);
  InProcessRendezvous rendezvous(1);
  auto communicator = MakeCommunicator({.rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  EXPECT_TRUE((*communicator)->Barrier(kOptions).ok());
}

TEST(CommunicatorFactoryTest, GlooRefusesAProcessThatSigpipeWouldEnd) {
  signal(SIGPIPE, SIG_DFL);
  InProcessRendezvous rendezvous(1);
  const auto communicator =
      MakeCommunicator({.rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  signal(SIGPIPE, SIG_IGN);
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status())) << communicator.status();
}

// No peer is at fault, so it has no code of one.
TEST(CommunicatorFactoryTest, GlooSaysThatItCannotListenHere) {
  signal(SIGPIPE, SIG_IGN);
  InProcessRendezvous rendezvous(2);
  const absl::Status status = MakeCommunicator({.size = 2,
                                                .rendezvous = &rendezvous,
                                                .timeout = absl::Seconds(60),
                                                .hostname = "192.0.2.1"})
                                  .status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("listening on 192.0.2.1"));
}

TEST(CommunicatorFactoryTest, GlooNeedsARendezvousAndARankInRange) {
  InProcessRendezvous rendezvous(1);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeCommunicator({.timeout = absl::Seconds(1)}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(MakeCommunicator({.rank = 1, .rendezvous = &rendezvous}).status()));
}

TEST(CommunicatorFactoryTest, NcclFailsCleanlyWhereThereIsNoDevice) {
  if (CudaDeviceCount().ok()) GTEST_SKIP() << "this machine has a CUDA device";
  InProcessRendezvous rendezvous(1);
  const auto communicator = MakeCommunicator(
      {.kind = CommunicatorKind::kNccl, .rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status())) << communicator.status();
  EXPECT_THAT(std::string(communicator.status().message()), testing::HasSubstr("no CUDA device"));
}

TEST(CommunicatorFactoryTest, ParsesKinds) {
  EXPECT_EQ(*ParseCommunicatorKind("thread"), CommunicatorKind::kThread);
  EXPECT_EQ(*ParseCommunicatorKind("gloo"), CommunicatorKind::kGloo);
  EXPECT_EQ(*ParseCommunicatorKind("nccl"), CommunicatorKind::kNccl);
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCommunicatorKind("mpi").status()));
}

}  // namespace
}  // namespace longhaul
