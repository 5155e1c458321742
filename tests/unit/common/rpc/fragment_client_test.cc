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

TEST_F(FragmentClientTest, PullsOverSeveralChannelsInOrder) {
  const int64_t elements = 2 << 20;
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return PullSource{
        {}, SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), elements), FourBytesEach)};
  };
  Serve(elements);
  const auto parts = Pull(channels_, {{0, 16384}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3);
  int64_t next = 0;
  for (const PulledBlocks& part : *parts) {
    EXPECT_EQ(part.blocks.segments[0].first_block, next);
    next = BlocksOf(part.blocks.segments)[0].end();
  }
  EXPECT_EQ(next, 16384);
}

TEST_F(FragmentClientTest, APassedDeadlineEndsTheCall) {
  Serve(1000);
  const auto blocks = MakeFragment(1000);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      PushBlocks(OneChannel(), {}, SourceOf(blocks, FourBytesEach), {.deadline = absl::UnixEpoch()})
          .status()));
}

TEST_F(FragmentClientTest, AStopCancelsAPushAtOnce) {
  service_.push.on_complete = [&](const v1::PushHeader&,
                                  CodedBlocks) -> absl::StatusOr<v1::PushResponse> {
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

TEST_F(FragmentClientTest, AStopCancelsAPullAtOnce) {
  service_.pull.on_request = [&](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    inside_.Notify();
    go_.WaitForNotification();
    return PullSource{{}, SourceOf(MakeFragment(1000), FourBytesEach)};
  };
  Serve(1000);
  std::stop_source stop;
  std::jthread stopper([&] {
    inside_.WaitForNotification();
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(Pull(OneChannel(), {{0, 8}}, stop.get_token()).status()));
  go_.Notify();
}

TEST_F(FragmentClientTest, ThePullerRefusesAnAnswerThatIsNotWhatItAskedFor) {
  service_.pull.on_request = [](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return PullSource{{}, SourceOf(MakeFragment(1000), FourBytesEach)};
  };
  Serve(10'000);
  EXPECT_TRUE(absl::IsInvalidArgument(Pull(OneChannel(), {{0, 8}}).status()));  // Short last block.
  EXPECT_TRUE(absl::IsInvalidArgument(Pull(OneChannel(), {{1, 70}}).status()));  // Others.
  check_ = [](const v1::PullHeader&) -> absl::StatusOr<StreamLimits> {
    return absl::FailedPreconditionError("another version");
  };
  EXPECT_EQ(Pull(OneChannel(), {{0, 8}}).status(),
            absl::FailedPreconditionError("another version"));
}

TEST_F(FragmentClientTest, ThePullerNoticesAnEarlyEnd) {
  service_.pull.on_request = [](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return PullSource{{}, SourceOf(MakeFragment(65536), FourBytesEach)};
  };
  Serve(100'000);
  const absl::Status status = Pull(OneChannel(), {{0, 600}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("block"), "512");
}

}  // namespace
}  // namespace longhaul
