#include "common/rpc/link_probe.h"

#include <string>

#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul {
namespace {

TEST(MeasureRoundTripTest, MeasuresAnyServerOfThisProject) {
  v1::PoolService::CallbackService service;
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  const auto round_trip = MeasureRoundTrip(MakeChannel({.address = server->address()}),
                                           SteadyTime() + absl::Seconds(60));
  ASSERT_TRUE(round_trip.ok()) << round_trip.status();
  EXPECT_GT(*round_trip, absl::ZeroDuration());
  EXPECT_LT(*round_trip, absl::Seconds(60));
}

TEST(MeasureRoundTripTest, EndsAtItsDeadlineWhenNobodyAnswers) {
  std::string address;
  {
    v1::PoolService::CallbackService service;
    address = (*Server::Start({.address = "127.0.0.1:0"}, {&service}))->address();
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      MeasureRoundTrip(MakeChannel({.address = address}), SteadyTime() + absl::Milliseconds(50))
          .status()));
}

TEST(ParseTcpWmemTest, TakesTheLastOfThreeFigures) {
  EXPECT_EQ(ParseTcpWmem("4096\t16384\t4194304\n").value(), 4194304);
  for (const char* text : {"", "4096 16384", "1 2 3 4", "1 2 x", "1 2 0", "1 2 -3"}) {
    EXPECT_TRUE(absl::IsInternal(ParseTcpWmem(text).status())) << text;
  }
}

TEST(SendBufferBytesMaxTest, IsThisMachines) {
  const auto bytes = SendBufferBytesMax();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GE(*bytes, 4096);
}

}  // namespace
}  // namespace longhaul
