#include "common/rpc/fragment_pull.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/status_details.h"
#include "gtest/gtest.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/unit/common/rpc/bulk_fixture.h"

namespace longhaul {
namespace {

class FragmentPullTest : public BulkTest {};

TEST_F(FragmentPullTest, PullsOverSeveralChannelsInOrder) {
  const int64_t elements = 2 << 20;
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return AnswerOf(
        SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), elements), FourBytesEach));
  };
  Serve(elements);
  const auto parts = Pull(channels_, {{0, 16384}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), 3);
  int64_t next = 0;
  for (const Pulled& part : *parts) {
    EXPECT_EQ(part.blocks.segments[0].first_block, next);
    next = BlocksOf(part.blocks.segments)[0].end();
  }
  EXPECT_EQ(next, 16384);
}

TEST_F(FragmentPullTest, AStopCancelsAPullAtOnce) {
  service_.pull.on_request = [&](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    inside_.Notify();
    go_.WaitForNotification();
    return AnswerOf(SourceOf(MakeFragment(1000), FourBytesEach));
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

TEST_F(FragmentPullTest, ThePullerRefusesAnAnswerToAnotherRequest) {
  service_.pull.on_request = [](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return AnswerOf(SourceOf(MakeFragment(1000), FourBytesEach));
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

TEST_F(FragmentPullTest, ThePullerNoticesAnEarlyEnd) {
  service_.pull.on_request = [](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return AnswerOf(SourceOf(MakeFragment(65536), FourBytesEach));
  };
  Serve(100'000);
  const absl::Status status = Pull(OneChannel(), {{0, 600}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("block"), "512");
}

// A server with a fragment of 8 MiB, behind a proxy that breaks the first `cuts` connections.
class CutPullTest : public BulkTest {
 protected:
  static constexpr int64_t kElements = 2 << 20, kBytes = 4 * kElements,
                           kBlocks = kElements / kBlockElements;

  void Serve(int64_t bytes_each, int cuts) {
    service_.pull.on_request = [this](const v1::PullRequest& request) {
      requested_.push_back(BlocksFromProto(request.blocks()));
      const std::vector<BlockRange> others = Missing({{0, kBlocks}}, requested_.back());
      PullSource answer = AnswerOf(Missing(SourceOf(fragment_, FourBytesEach), others));
      answer.header.set_version(version_);
      return answer;
    };
    BulkTest::Serve(kElements);
    proxy_.emplace(CuttingProxy::Options{.target_port = server_->port(),
                                         .direction = CuttingProxy::Direction::kDown,
                                         .bytes_each = bytes_each,
                                         .cuts = cuts});
    channels_ = {MakeChannel({.address = proxy_->address(), .kind = ChannelKind::kBulk})};
    v1::PullRequest request;
    *request.mutable_blocks() = BlocksToProto({{0, kBlocks}});
    pull_.emplace(request, 1, check_,
                  PullSink{.on_begin = [this](int) { received_ = {}, ++begun_; },
                           .on_chunk = [this](int, const CodedChunk& chunk) -> absl::Status {
                             if (--refused_chunk_ == 0) return absl::DataLossError("refused");
                             received_.Add(chunk);
                             return absl::OkStatus();
                           }});
  }
  // Tries again until the pull succeeds, or fails for another reason than a lost connection.
  absl::Status PullOn() {
    while (true) {
      const absl::Status status = pull_->Attempt(channels_, Call());
      if (!absl::IsUnavailable(status)) return status;
    }
  }

  const std::shared_ptr<const CodedBlocks> fragment_ = MakeFragment(kElements);
  std::optional<CuttingProxy> proxy_;
  std::optional<FragmentPull> pull_;
  ReceivedBlocks received_;
  int begun_ = 0;
  // The number of the chunk that the sink refuses, from 1; 0: none.
  int refused_chunk_ = 0;
  std::atomic<int64_t> version_ = 7;
  // The requests of one call at a time.
  std::vector<std::vector<BlockRange>> requested_;
};

// No connection carries more than three chunks. A pull that began again each time would never end.
TEST_F(CutPullTest, ContinuesWhereTheConnectionsBroke) {
  Serve(3 << 20, 1000);
  const absl::Status status = PullOn();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_GE(proxy_->cuts(), 2);
  EXPECT_EQ(begun_, 1);
  EXPECT_TRUE(SameBlocks(std::move(received_).Blocks(), *fragment_));
  EXPECT_EQ(wire_.payload, kBytes) << "no chunk crossed twice";
  for (size_t i = 1; i < requested_.size(); ++i) {
    EXPECT_GE(requested_[i][0].first, requested_[i - 1][0].first);
  }
}

TEST_F(CutPullTest, BeginsAgainWhenTheVersionChangedMeanwhile) {
  refused_chunk_ = 3;
  Serve(0, 0);
  ASSERT_TRUE(absl::IsDataLoss(pull_->Attempt(channels_, Call())));
  const int64_t before = wire_.payload;
  EXPECT_EQ(before, 3 << 20);
  version_ = 8;
  const absl::Status status = PullOn();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(begun_, 2);
  EXPECT_EQ(pull_->part(0).header.version(), 8);
  EXPECT_TRUE(SameBlocks(std::move(received_).Blocks(), *fragment_));
  EXPECT_EQ(wire_.payload, before + kBytes);
}

// A round was applied when a part of the version before it was sent: the server ends the stream.
// The next attempt begins each part again, on its own connection, and ends with the newer version.
TEST_F(FragmentPullTest, PartsThatAreOvertakenBeginAgainInTheNextAttempt) {
  const int64_t elements = 6 << 20;
  std::atomic<int64_t> version = 3;
  std::atomic<int> sent = 0;
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    v1::PullHeader header;
    header.set_version(version);
    PullSource answer = AnswerOf(
        SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), elements), FourBytesEach), header);
    answer.next = [&, began = version.load(),
                   next = std::move(answer.next)]() -> absl::StatusOr<CodedBlocks> {
      if (++sent == 7) version = 4;
      if (began != version) return absl::UnavailableError("version 4 was committed");
      return next();
    };
    return answer;
  };
  Serve(elements);
  v1::PullRequest request;
  *request.mutable_blocks() = BlocksToProto({{0, elements / kBlockElements}});
  std::vector<ReceivedBlocks> received(3);
  FragmentPull pull(request, 3, check_,
                    {.on_begin = [&](int part) { received[part] = {}; },
                     .on_chunk =
                         [&](int part, const CodedChunk& chunk) {
                           received[part].Add(chunk);
                           return absl::OkStatus();
                         }});
  const absl::Status overtaken = pull.Attempt(channels_, Call());
  EXPECT_TRUE(absl::IsUnavailable(overtaken)) << overtaken;
  const absl::Status again = pull.Attempt(channels_, Call());
  ASSERT_TRUE(again.ok()) << again;
  for (int i = 0; i < pull.parts(); ++i) {
    EXPECT_EQ(pull.part(i).header.version(), 4);
    EXPECT_TRUE(
        SameBlocks(std::move(received[i]).Blocks(), *MakeBlocks(pull.part(i).blocks, elements)));
  }
}

TEST_F(FragmentPullTest, PartsOfTwoVersionsAreMadeOne) {
  const int64_t elements = 2 << 20;
  std::atomic<int> calls = 0;
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    PullSource answer =
        AnswerOf(SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), elements), FourBytesEach));
    answer.header.set_version(++calls == 1 ? 3 : 4);
    return answer;
  };
  Serve(elements);
  v1::PullRequest request;
  *request.mutable_blocks() = BlocksToProto({{0, elements / kBlockElements}});
  FragmentPull pull(request, 3, check_,
                    {.on_begin = [](int) {},
                     .on_chunk = [](int, const CodedChunk&) { return absl::OkStatus(); }});
  EXPECT_TRUE(absl::IsUnavailable(pull.Attempt(channels_, Call())));
  ASSERT_TRUE(pull.Attempt(channels_, Call()).ok());
  EXPECT_EQ(calls, 4) << "the part of the earlier version alone comes again";
  for (int i = 0; i < pull.parts(); ++i) EXPECT_EQ(pull.part(i).header.version(), 4);
}

TEST_F(FragmentPullTest, AChannelHasOneStreamAtATime) {
  const int64_t elements = 2 << 20;
  std::map<std::string, int> calls;
  int open = 0, open_most = 0;
  service_.on_pull = [&](const std::string& peer) {
    absl::MutexLock lock(&mutex_);
    ++calls[peer];
    open_most = std::max(open_most, ++open);
  };
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return AnswerOf(
        SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), elements), FourBytesEach));
  };
  service_.pull.on_end = [&](const absl::Status&, const WireBytes&) {
    absl::MutexLock lock(&mutex_);
    --open;
  };
  Serve(elements);
  v1::PullRequest request;
  *request.mutable_blocks() = BlocksToProto({{0, elements / kBlockElements}});
  FragmentPull pull(request, 6, check_,
                    {.on_begin = [](int) {},
                     .on_chunk = [](int, const CodedChunk&) { return absl::OkStatus(); }});
  ASSERT_EQ(pull.parts(), 6);
  const absl::Status status = pull.Attempt(BulkChannels(channels_).first(2), Call());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(wire_.payload, 4 * elements);
  ASSERT_EQ(calls.size(), 2u) << "both channels are used";
  for (const auto& [peer, count] : calls) EXPECT_EQ(count, 3) << peer;
  EXPECT_LE(open_most, 2);
}

TEST_F(FragmentPullTest, AnErrorOfTheSinkEndsTheAttemptAndTheChunkComesAgain) {
  service_.pull.on_request = [](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    return AnswerOf(
        SourceOf(MakeBlocks(BlocksFromProto(request.blocks()), 1 << 20), FourBytesEach));
  };
  Serve(1 << 20);
  v1::PullRequest request;
  *request.mutable_blocks() = BlocksToProto({{0, 8192}});
  int calls = 0;
  std::vector<int64_t> first_blocks;
  FragmentPull pull(request, 1, check_,
                    {.on_begin = [](int) {},
                     .on_chunk = [&](int, const CodedChunk& chunk) -> absl::Status {
                       if (++calls == 2) return absl::DataLossError("refused");
                       first_blocks.push_back(chunk.segments[0].first_block);
                       return absl::OkStatus();
                     }});
  EXPECT_EQ(pull.Attempt(OneChannel(), Call()), absl::DataLossError("refused"));
  ASSERT_TRUE(pull.Attempt(OneChannel(), Call()).ok());
  EXPECT_EQ(first_blocks, std::vector<int64_t>({0, 2048, 4096, 6144}));
}

}  // namespace
}  // namespace longhaul
