#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_details.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_fixture.h"

namespace longhaul {
namespace {

class PushReactorTest : public BulkTest {};

TEST_F(PushReactorTest, PushesEverySize) {
  for (const int64_t elements : kSizes) {
    server_.reset(), channels_.clear(), received_.clear(), headers_.clear();
    service_.push = {};
    Serve(elements);
    const auto blocks = MakeFragment(elements);
    const auto response = Push(OneChannel(), blocks);
    ASSERT_TRUE(response.ok()) << elements << ": " << response.status();
    EXPECT_TRUE(response->contribution_complete());
    ASSERT_EQ(received_.size(), 1);
    EXPECT_TRUE(SameBlocks(received_[0], *blocks)) << elements;
    EXPECT_EQ(headers_[0].payload_bytes(), blocks->payload.size());
    EXPECT_EQ(headers_[0].job_id(), "job");
  }
}

TEST_F(PushReactorTest, ARefusedHeaderArrivesWithItsDetails) {
  service_.push.on_header = [](const v1::PushHeader&) -> absl::StatusOr<StreamLimits> {
    return WithErrorInfo(absl::FailedPreconditionError("stale"),
                         {"VERSION_MISMATCH", {{"have", "4"}}});
  };
  Serve(1 << 20);
  const absl::Status status = Push(OneChannel(), MakeFragment(1 << 20)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(ErrorInfoOf(status), (ErrorDetail{"VERSION_MISMATCH", {{"have", "4"}}}));
}

TEST_F(PushReactorTest, AFailureOfTheHandlerIsTheCallsStatus) {
  service_.push.on_complete = [](const v1::PushHeader&) {
    return absl::StatusOr<v1::PushResponse>(BadRequestError({{"segments[0]", "NaN"}}));
  };
  Serve(1000);
  EXPECT_EQ(FieldViolationsOf(Push(OneChannel(), MakeFragment(1000)).status()),
            std::vector<FieldViolation>({{"segments[0]", "NaN"}}));
}

TEST_F(PushReactorTest, MalformedStreamsAreRefusedAndTheServerKeepsServing) {
  const int64_t elements = 600'000;
  Serve(elements);
  const auto blocks = MakeFragment(elements);
  const std::string header = HeaderOf(*blocks);
  const std::vector<std::string> chunks = ChunksOf(blocks);
  ASSERT_EQ(chunks.size(), 3);
  std::string flipped = chunks[1];
  flipped.back() ^= 1;
  const std::string too_large =
      Edited(chunks[1], [](v1::PushMessage& m) { m.set_payload(std::string(3 << 19, 'x')); });
  const std::string overlapping =
      Edited(chunks[1], [](v1::PushMessage& m) { m.mutable_segments(0)->set_first_block(2047); });
  const std::string ranges_overlap = Edited(
      header, [](v1::PushMessage& m) { *m.mutable_header()->add_blocks() = m.header().blocks(0); });
  const struct {
    std::string name;
    std::vector<std::string> messages;
    absl::StatusCode code;
    std::string reason, block;
  } cases[] = {
      {"nothing", {}, absl::StatusCode::kInvalidArgument, "MISSING_HEADER", ""},
      {"no header", chunks, absl::StatusCode::kInvalidArgument, "MISSING_HEADER", ""},
      {"unknown fields first",
       {"\x98\x06\x07", header},
       absl::StatusCode::kInvalidArgument,
       "MISSING_HEADER",
       ""},
      {"header and payload",
       {header + chunks[0]},
       absl::StatusCode::kInvalidArgument,
       "MISSING_HEADER",
       ""},
      {"garbage", {"\xff\xff\xff"}, absl::StatusCode::kInvalidArgument, "", ""},
      {"overlapping ranges", {ranges_overlap}, absl::StatusCode::kInvalidArgument, "", ""},
      {"header alone", {header}, absl::StatusCode::kDataLoss, "STREAM_TRUNCATED", "0"},
      {"truncated",
       {header, chunks[0], chunks[1]},
       absl::StatusCode::kDataLoss,
       "STREAM_TRUNCATED",
       "4096"},
      {"cut",
       {header, chunks[0], chunks[1].substr(0, 5000)},
       absl::StatusCode::kInvalidArgument,
       "MALFORMED_MESSAGE",
       "2048"},
      {"flipped bit",
       {header, chunks[0], flipped},
       absl::StatusCode::kDataLoss,
       "HASH_MISMATCH",
       "2048"},
      {"too large",
       {header, chunks[0], too_large},
       absl::StatusCode::kResourceExhausted,
       "MESSAGE_TOO_LARGE",
       "2048"},
      {"wrong order",
       {header, chunks[1]},
       absl::StatusCode::kInvalidArgument,
       "MALFORMED_SEGMENT",
       "0"},
      {"missing",
       {header, chunks[0], chunks[2]},
       absl::StatusCode::kInvalidArgument,
       "MALFORMED_SEGMENT",
       "2048"},
      {"overlapping",
       {header, chunks[0], overlapping},
       absl::StatusCode::kInvalidArgument,
       "MALFORMED_SEGMENT",
       "2048"},
      {"second header",
       {header, header},
       absl::StatusCode::kInvalidArgument,
       "MALFORMED_CHUNK",
       "0"},
  };
  for (const auto& test : cases) {
    const absl::Status status = RawPush(test.messages);
    EXPECT_EQ(status.code(), test.code) << test.name << ": " << status;
    const ErrorDetail detail = ErrorInfoOf(status).value_or(ErrorDetail{});
    EXPECT_EQ(detail.reason, test.reason) << test.name << ": " << status;
    const auto block = detail.metadata.find("block");
    EXPECT_EQ(block == detail.metadata.end() ? "" : block->second, test.block) << test.name;
  }
  EXPECT_TRUE(received_.empty());
  arriving_.clear();
  ASSERT_TRUE(Push(OneChannel(), blocks).ok());
  EXPECT_TRUE(SameBlocks(received_.at(0), *blocks));
}

TEST_F(PushReactorTest, ACallWithoutADeadlineIsRefused) {
  Serve(1000);
  const auto blocks = MakeFragment(1000);
  const absl::Status status = RawPush({HeaderOf(*blocks)}, false, absl::InfiniteFuture());
  EXPECT_EQ(ErrorInfoOf(status).value_or(ErrorDetail{}).reason, "MISSING_DEADLINE") << status;
}

TEST_F(PushReactorTest, PushesBeyondAdmissionAreToldWhenToReturn) {
  service_.push.on_complete = [&](const v1::PushHeader&) -> absl::StatusOr<v1::PushResponse> {
    inside_.Notify();
    go_.WaitForNotification();
    return v1::PushResponse();
  };
  Serve(1000, {.bytes_max = 200 << 10, .retry_delay = absl::Seconds(7)});
  std::jthread first([&] { EXPECT_TRUE(Push(OneChannel(), MakeFragment(1000)).ok()); });
  inside_.WaitForNotification();
  WireBytes wire;
  const absl::Status status =
      PushBlocks(OneChannel(), {}, SourceOf(MakeFragment(1000), FourBytesEach),
                 {.deadline = SteadyTime() + absl::Seconds(60), .wire = &wire})
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(RetryDelayOf(status), absl::Seconds(7));
  EXPECT_GT(wire.total, 0);
  go_.Notify();
}

TEST_F(PushReactorTest, ACallIsToldThatTheExecutorIsFull) {
  Serve(1000, {}, {.threads = 1, .queue_max = 0});
  const absl::Status status = Push(OneChannel(), MakeFragment(1000)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryDelayOf(status).has_value());
}

TEST_F(PushReactorTest, ACancelledPushIsNeverComplete) {
  service_.push.on_header = [this](const v1::PushHeader&) {
    header_seen_.Notify();
    return StreamLimits{600'000, 1 << 30, FourBytesEach};
  };
  service_.push.on_end = [&](const absl::Status& status, const WireBytes&) {
    EXPECT_FALSE(status.ok());
    ended_.Notify();
  };
  Serve(600'000);
  const auto blocks = MakeFragment(600'000);
  EXPECT_TRUE(absl::IsCancelled(RawPush({HeaderOf(*blocks), ChunksOf(blocks)[0]}, true)));
  ended_.WaitForNotification();
  server_->Shutdown(absl::Seconds(60));
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(admission_->streams(), 0);
}

TEST_F(PushReactorTest, ARefusedChunkEndsTheStream) {
  service_.push.on_chunk = [this](const v1::PushHeader&, const CodedChunk& chunk) -> absl::Status {
    if (chunk.segments[0].first_block == 0) return absl::OkStatus();
    return WithErrorInfo(absl::InvalidArgumentError("NaN"), {"BAD_SEGMENT", {{"block", "2048"}}});
  };
  WireBytes at_server;
  service_.push.on_end = [&](const absl::Status& status, const WireBytes& bytes) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    at_server = bytes;
    ended_.Notify();
  };
  Serve(4 << 20);
  const absl::Status status = Push(OneChannel(), MakeFragment(4 << 20)).status();
  EXPECT_EQ(ErrorInfoOf(status)->metadata.at("block"), "2048") << status;
  ended_.WaitForNotification();
  EXPECT_GE(at_server.payload, 2 << 20);
  EXPECT_TRUE(headers_.empty());
}

// While the handler has one chunk of a stream, the next is read and verified. Memory does not grow
// with the stream.
TEST_F(PushReactorTest, HoldsTwoChunksOfAStream) {
  constexpr int64_t kElements = 4 << 20, kSegments = kElements / kTileElements;
  constexpr int kChunkSegments = 4;
  // Numbers of segments. The size of a segment is requested when it is verified.
  int64_t verified = 0, taken = 0;
  service_.push.on_header = [&](const v1::PushHeader&) {
    return StreamLimits{kElements, 1 << 30, [&](int32_t elements) {
                          absl::MutexLock lock(&mutex_);
                          ++verified;
                          return FourBytesEach(elements);
                        }};
  };
  service_.push.on_chunk = [&](const v1::PushHeader&, const CodedChunk& chunk) {
    absl::MutexLock lock(&mutex_);
    const auto next_is_read = [&] {
      return verified == std::min(kSegments, taken + 2 * kChunkSegments);
    };
    mutex_.Await(absl::Condition(&next_is_read));
    taken += static_cast<int64_t>(chunk.segments.size());
    return absl::OkStatus();
  };
  service_.push.on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); };
  Serve(kElements);
  const auto pushed = Push(OneChannel(), MakeFragment(kElements));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(taken, kSegments);
}

// A handler that does not return stops only its own stream: its sender waits, while other streams
// on the same connection and other calls continue.
TEST_F(PushReactorTest, ASlowHandlerDelaysOnlyItsOwnStream) {
  // 32 MiB: more than any window or buffer on the way.
  constexpr int64_t kElements = 8 << 20;
  service_.push.on_chunk = [this](const v1::PushHeader& header, const CodedChunk& chunk) {
    if (header.fragment() == 1) {
      if (!inside_.HasBeenNotified()) inside_.Notify();
      go_.WaitForNotification();
    }
    absl::MutexLock lock(&mutex_);
    arriving_[header.fragment()].Add(chunk);
    return absl::OkStatus();
  };
  service_.push.on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); };
  service_.pull.on_request = [](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    return AnswerOf(SourceOf(MakeFragment(1024), FourBytesEach));
  };
  Serve(kElements);
  const auto blocks = MakeFragment(kElements);
  const auto push = [&](int fragment, WireBytes* wire) {
    v1::PushHeader header;
    header.set_fragment(fragment);
    return PushBlocks(OneChannel(), header, SourceOf(blocks, FourBytesEach),
                      {.deadline = SteadyTime() + absl::Seconds(60), .wire = wire});
  };
  absl::Notification stalled_ended;
  std::jthread stalled([&] {
    WireBytes wire;
    EXPECT_TRUE(push(1, &wire).ok());
    stalled_ended.Notify();
  });
  inside_.WaitForNotification();
  for (int fragment = 2; fragment < 4; ++fragment) {
    WireBytes wire;
    ASSERT_TRUE(push(fragment, &wire).ok());
  }
  const auto pulled = Pull(OneChannel(), {{0, 8}});
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_FALSE(stalled_ended.HasBeenNotified());
  go_.Notify();
  stalled.join();
  for (int fragment = 1; fragment < 4; ++fragment) {
    EXPECT_TRUE(SameBlocks(std::move(arriving_[fragment]).Blocks(), *blocks)) << fragment;
  }
}

// Many streams share few threads: all make progress, chunk by chunk.
TEST_F(PushReactorTest, ManySmallPushesAreAllAdmittedAndShareTheThreads) {
  constexpr int kPushes = 256;
  constexpr int64_t kElements = 10'000;
  service_.push.on_chunk = [](const v1::PushHeader&, const CodedChunk&) {
    return absl::OkStatus();
  };
  int begun = 0;
  service_.push.on_header = [&](const v1::PushHeader&) {
    absl::MutexLock lock(&mutex_);
    ++begun;
    return StreamLimits{kElements, 1 << 30, FourBytesEach};
  };
  // The first waits in its handler until all have begun.
  service_.push.on_complete = [&](const v1::PushHeader&) {
    absl::MutexLock lock(&mutex_);
    const auto all = [&] { return begun == kPushes; };
    mutex_.Await(absl::Condition(&all));
    return v1::PushResponse();
  };
  Serve(kElements, {}, {.threads = 2, .queue_max = kPushes});
  const auto blocks = MakeFragment(kElements);
  std::vector<std::jthread> pushes;
  for (int i = 0; i < kPushes; ++i) {
    pushes.emplace_back([&] {
      WireBytes wire;
      const auto pushed = PushBlocks(OneChannel(), {}, SourceOf(blocks, FourBytesEach),
                                     {.deadline = SteadyTime() + absl::Seconds(60), .wire = &wire});
      EXPECT_TRUE(pushed.ok()) << pushed.status();
    });
  }
  for (std::jthread& push : pushes) push.join();
  server_->Shutdown(absl::Seconds(60));
  EXPECT_EQ(admission_->bytes(), 0);
}

TEST_F(PushReactorTest, UnfinishedPushesOfOnePoolLeaveRoomForOthers) {
  const auto blocks = MakeFragment(600'000);
  v1::PushHeader header;
  header.set_pool("greedy");
  v1::PushMessage first;
  first.ParseFromString(HeaderOf(*blocks));
  first.mutable_header()->set_pool("greedy");
  const std::string opening = first.SerializeAsString();
  std::vector<std::jthread> unfinished;
  bool refused = false;
  service_.push.on_end = [&](const absl::Status& status, const WireBytes&) {
    absl::MutexLock lock(&mutex_);
    refused |= absl::IsResourceExhausted(status);
  };
  Serve(600'000, {.bytes_max = 32 << 20});
  for (int i = 0; i < 20; ++i) {
    unfinished.emplace_back([&] {
      EXPECT_FALSE(
          RawPush({opening, ChunksOf(blocks)[0]}, false, absl::Now() + absl::Seconds(60), true)
              .ok());
    });
  }
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&refused));
  }
  header.set_pool("modest");
  for (int i = 0; i < 5; ++i) {
    WireBytes wire;
    const auto pushed = PushBlocks(OneChannel(), header, SourceOf(blocks, FourBytesEach),
                                   {.deadline = SteadyTime() + absl::Seconds(60), .wire = &wire});
    EXPECT_TRUE(pushed.ok()) << pushed.status();
  }
  EXPECT_LE(admission_->bytes(), 32 << 20);
  // Ends the unfinished streams.
  server_->Shutdown(absl::ZeroDuration());
}

TEST_F(PushReactorTest, APushWhosePeerMakesNoProgressIsEndedAndGivesItsShareBack) {
  stall_ = {.pause_max = absl::Milliseconds(50), .pace_min = 1 << 30};
  Serve(600'000);
  const auto blocks = MakeFragment(600'000);
  const std::vector<std::string> chunks = ChunksOf(blocks);
  for (const std::vector<std::string>& sent :
       {std::vector<std::string>{}, {HeaderOf(*blocks)}, {HeaderOf(*blocks), chunks[0]}}) {
    const absl::Status status = RawPush(sent, false, absl::Now() + absl::Seconds(60), true);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_EQ(ErrorInfoOf(status).value_or(ErrorDetail{}).reason, "NO_PROGRESS") << status;
    EXPECT_TRUE(IsRetriable(status));
  }
  server_->Shutdown(absl::Seconds(60));
  EXPECT_EQ(admission_->streams(), 0);
}

// The handler is slow, not the peer.
TEST_F(PushReactorTest, APeerThatWaitsForTheHandlerIsNotBlamed) {
  stall_ = {.pause_max = absl::Milliseconds(300), .pace_min = 1 << 30};
  service_.push.on_chunk = [first = true](const v1::PushHeader&, const CodedChunk&) mutable {
    if (std::exchange(first, false)) absl::SleepFor(absl::Milliseconds(900));
    return absl::OkStatus();
  };
  service_.push.on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); };
  Serve(8 << 20);
  const auto pushed = Push(OneChannel(), MakeFragment(1 << 20));
  EXPECT_TRUE(pushed.ok()) << pushed.status();
}

TEST_F(PushReactorTest, BothEndsCountTheSameBytes) {
  WireBytes at_server;
  service_.push.on_end = [&](const absl::Status& status, const WireBytes& bytes) {
    EXPECT_TRUE(status.ok());
    at_server = bytes;
    ended_.Notify();
  };
  Serve(1 << 20);
  ASSERT_TRUE(Push(OneChannel(), MakeFragment(1 << 20)).ok());
  ended_.WaitForNotification();
  EXPECT_EQ(at_server.payload, 4 << 20);
  EXPECT_EQ(wire_.payload, at_server.payload);
  EXPECT_EQ(wire_.total, at_server.total);
  EXPECT_LT(wire_.total, wire_.payload * 1.002);
}

}  // namespace
}  // namespace longhaul
