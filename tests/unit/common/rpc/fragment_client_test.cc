#include "common/rpc/fragment_client.h"

#include <string>
#include <thread>
#include <vector>

#include "common/rpc/status_details.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_fixture.h"

namespace longhaul {
namespace {

class FragmentClientTest : public BulkTest {};

TEST_F(FragmentClientTest, PushesOverSeveralChannels) {
  Serve(2 << 20);
  const auto blocks = MakeFragment(2 << 20);
  const auto response = Push(channels_, blocks);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->contribution_complete());
  ASSERT_EQ(received_.size(), 3);
  size_t bytes = 0;
  for (const CodedBlocks& part : received_) {
    const size_t offset = part.segments[0].first_block * 512;
    EXPECT_EQ(part.payload.span(), blocks->payload.span().subspan(offset, part.payload.size()));
    bytes += part.payload.size();
  }
  EXPECT_EQ(bytes, blocks->payload.size());
  EXPECT_EQ(wire_.payload, bytes);
}

TEST_F(FragmentClientTest, APassedDeadlineEndsTheCall) {
  Serve(1000);
  const auto blocks = MakeFragment(1000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      PushBlocks(OneChannel(), {}, SourceOf(blocks, FourBytesEach), {.deadline = absl::UnixEpoch()})
          .status()));
}

TEST_F(FragmentClientTest, AStopCancelsAPushAtOnce) {
  service_.push.on_complete = [&](const v1::PushHeader&) -> absl::StatusOr<v1::PushResponse> {
    inside_.Notify();
    go_.WaitForNotification();
    return v1::PushResponse();
  };
  Serve(1000);
  std::stop_source stop;
  std::jthread stopper([&] {
    inside_.WaitForNotification();
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(Push(OneChannel(), MakeFragment(1000), stop.get_token()).status()));
  go_.Notify();
  EXPECT_TRUE(absl::IsCancelled(Push(channels_, MakeFragment(1 << 20), stop.get_token()).status()));
}

}  // namespace
}  // namespace longhaul
