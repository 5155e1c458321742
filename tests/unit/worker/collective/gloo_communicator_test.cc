#include "worker/collective/gloo_communicator.h"

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/in_process_rendezvous.h"

namespace longhaul {
namespace {

TEST(GlooCommunicatorTest, RefusesAProcessThatSigpipeWouldEnd) {
  signal(SIGPIPE, SIG_DFL);
  InProcessRendezvous rendezvous(1);
  const auto communicator =
      MakeGlooCommunicator({.size = 1, .rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  signal(SIGPIPE, SIG_IGN);
  EXPECT_TRUE(absl::IsFailedPrecondition(communicator.status())) << communicator.status();
}

// No peer is at fault, so it has no code of one.
TEST(GlooCommunicatorTest, SaysThatItCannotListenHere) {
  signal(SIGPIPE, SIG_IGN);
  InProcessRendezvous rendezvous(2);
  const absl::Status status = MakeGlooCommunicator({.size = 2,
                                                    .hostname = "192.0.2.1",
                                                    .rendezvous = &rendezvous,
                                                    .timeout = absl::Seconds(60)})
                                  .status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("listening on 192.0.2.1"));
}

TEST(GlooCommunicatorTest, NeedsARendezvousAndARankInRange) {
  InProcessRendezvous rendezvous(1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeGlooCommunicator({.size = 1, .timeout = absl::Seconds(1)}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeGlooCommunicator({.rank = 1, .size = 1, .rendezvous = &rendezvous}).status()));
}

}  // namespace
}  // namespace longhaul
