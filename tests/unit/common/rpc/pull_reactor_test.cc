#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/status_details.h"
#include "gtest/gtest.h"
#include "tests/unit/common/rpc/bulk_fixture.h"

namespace longhaul {
namespace {

class PullReactorTest : public BulkTest {};

TEST_F(PullReactorTest, PullsEverySize) {
  for (const int64_t elements : kSizes) {
    server_.reset(), channels_.clear();
    const auto blocks = MakeFragment(elements);
    service_.pull.on_request = [&](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
      v1::PullHeader header;
      header.set_version(9);
      return AnswerOf(SourceOf(blocks, FourBytesEach), header);
    };
    Serve(elements);
    const auto parts = Pull(OneChannel(), BlocksOf(blocks->segments));
    ASSERT_TRUE(parts.ok()) << elements << ": " << parts.status();
    ASSERT_EQ(parts->size(), 1);
    EXPECT_EQ(parts->front().header.version(), 9);
    EXPECT_TRUE(SameBlocks(parts->front().blocks, *blocks)) << elements;
  }
}

TEST_F(PullReactorTest, AFailureOfTheHandlerIsTheCallsStatus) {
  service_.pull.on_request = [](const v1::PullRequest&) {
    return absl::StatusOr<PullSource>(absl::NotFoundError("no such job"));
  };
  Serve(1000);
  EXPECT_EQ(Pull(channels_, {{0, 8}}).status(), absl::NotFoundError("no such job"));
}

TEST_F(PullReactorTest, PullsBeyondAdmissionAreToldWhenToReturn) {
  service_.pull.on_request = [this](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    inside_.Notify();
    go_.WaitForNotification();
    return AnswerOf(SourceOf(MakeFragment(1000), FourBytesEach));
  };
  Serve(1000, {.bytes_max = 200 << 10, .retry_delay = absl::Seconds(7)});
  std::jthread first([this] { EXPECT_TRUE(Pull(OneChannel(), {{0, 8}}).ok()); });
  inside_.WaitForNotification();
  v1::PullRequest request;
  request.add_blocks()->set_count(8);
  FragmentPull second(request, 1, check_, {});
  const absl::Status status =
      second.Attempt(OneChannel(), {.deadline = SteadyTime() + absl::Seconds(60)});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(RetryDelayOf(status), absl::Seconds(7));
  go_.Notify();
}

TEST_F(PullReactorTest, WhoMayNotPullTakesNoShare) {
  service_.pull.on_admit = [](const v1::PullRequest& request) {
    return request.pool() == "b" ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  };
  // There is room for none.
  Serve(1000, {.bytes_max = 0});
  v1::PullRequest request;
  request.set_pool("b");
  request.add_blocks()->set_count(8);
  EXPECT_TRUE(
      absl::IsPermissionDenied(FragmentPull(request, 1, check_, {}).Attempt(OneChannel(), Call())));
  request.set_pool("a");
  EXPECT_TRUE(absl::IsResourceExhausted(
      FragmentPull(request, 1, check_, {}).Attempt(OneChannel(), Call())));
}

// A whole pull computes a digest of its fragment: a pool that asks for many must not keep another
// one out (ExecutorTest.OwnersTakeTurns: nor waiting).
TEST_F(PullReactorTest, ManyPullsOfOnePoolDoNotKeepAnotherOut) {
  absl::Mutex mutex;
  std::vector<std::string> order;
  int arrived = 0;
  service_.pull.on_admit = [&](const v1::PullRequest&) {
    absl::MutexLock lock(&mutex);
    ++arrived;
    return absl::OkStatus();
  };
  service_.pull.on_request = [&](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
    {
      absl::MutexLock lock(&mutex);
      order.push_back(request.pool());
      if (order.size() == 1) inside_.Notify();
    }
    go_.WaitForNotification();
    return AnswerOf(SourceOf(MakeFragment(1000), FourBytesEach));
  };
  Serve(1000, {}, {.threads = 1, .queue_max = 16});
  const auto stub = v1::SyncService::NewStub(channels_[0]);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::PullMessage>>> pulls;
  const auto pull = [&](const std::string& pool) {
    v1::PullRequest request;
    request.set_pool(pool);
    request.add_blocks()->set_count(8);
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    pulls.push_back(stub->PullFragment(contexts.back().get(), request));
  };
  const auto await = [&](int count) {
    absl::MutexLock lock(&mutex);
    const auto all = [&] { return arrived >= count; };
    mutex.Await(absl::Condition(&all));
  };
  pull("a");
  inside_.WaitForNotification();
  for (int i = 0; i < 40; ++i) pull("a");
  await(41);
  pull("b");
  await(42);
  go_.Notify();
  v1::PullMessage message;
  EXPECT_TRUE(pulls.back()->Read(&message));
  for (auto& one : pulls) {
    while (one->Read(&message)) {
    }
    (void)one->Finish();
  }
  EXPECT_EQ(std::count(order.begin(), order.end(), "b"), 1) << "it was refused";
}

TEST_F(PullReactorTest, ACallIsToldThatTheExecutorIsFull) {
  Serve(1000, {}, {.threads = 1, .queue_max = 0});
  const absl::Status status = Pull(OneChannel(), {{0, 8}}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryDelayOf(status).has_value());
}

TEST_F(PullReactorTest, ARequestThatIsTooLargeIsRefused) {
  Serve(1000);
  v1::PullRequest request;
  request.set_job_id(std::string(kRestBytesMax, 'x'));
  request.add_blocks()->set_count(8);
  EXPECT_TRUE(absl::IsResourceExhausted(
      FragmentPull(request, 1, check_, {}).Attempt(OneChannel(), Call())));
}

TEST_F(PullReactorTest, APullWhoseReaderMakesNoProgressIsEnded) {
  // 32 MiB: more than any window or buffer on the way.
  constexpr int64_t kElements = 8 << 20;
  const auto blocks = MakeFragment(kElements);
  stall_ = {.pause_max = absl::Milliseconds(50), .pace_min = 1 << 30};
  service_.pull.on_request = [&](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    return AnswerOf(SourceOf(blocks, FourBytesEach));
  };
  absl::Status at_server;
  service_.pull.on_end = [&](const absl::Status& status, const WireBytes&) {
    at_server = status;
    ended_.Notify();
  };
  Serve(kElements);
  v1::PullRequest request;
  request.add_blocks()->set_count(kElements / kBlockElements);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  const auto unread = v1::SyncService::NewStub(MakeChannel({.address = server_->address()}))
                          ->PullFragment(&context, request);
  ended_.WaitForNotification();
  EXPECT_TRUE(absl::IsDeadlineExceeded(at_server)) << at_server;
  context.TryCancel();
  server_->Shutdown(absl::Seconds(60));
  EXPECT_EQ(admission_->streams(), 0);
}

// The memory of a chunk; `live` counts those that anybody holds, `most` the largest number.
AlignedBuffer CountedBuffer(size_t bytes, std::atomic<int>& live, std::atomic<int>& most) {
  most = std::max(most.load(), ++live);
  return {std::shared_ptr<uint8_t>(new uint8_t[bytes](),
                                   [&live](uint8_t* memory) {
                                     delete[] memory;
                                     --live;
                                   }),
          bytes};
}

// Admission counts one chunk, whatever gRPC and the connection hold back. The reader may stop
// anywhere: its windows are larger than some chunks.
TEST_F(PullReactorTest, AStreamHoldsOneChunkHoweverSlowItsReader) {
  constexpr int64_t kElements = 16 << 20, kChunk = kPayloadBytesMax / 4, kChunks = 64;
  std::atomic<int> live = 0, most = 0, made = 0;
  service_.pull.on_request = [&](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    PullSource answer;
    answer.header.set_payload_bytes(4 * kElements);
    answer.next = [&, segments = CutSegments({{0, kElements / kBlockElements}}, kElements),
                   next = size_t{0}]() mutable -> absl::StatusOr<CodedBlocks> {
      ++made;
      CodedBlocks chunk{{}, CountedBuffer(4 * kChunk, live, most)};
      for (int i = 0; i < 4; ++i) chunk.segments.push_back(segments[next++]);
      return chunk;
    };
    return answer;
  };
  service_.pull.on_end = [&](const absl::Status&, const WireBytes&) { ended_.Notify(); };
  Serve(kElements);
  v1::PullRequest request;
  request.add_blocks()->set_count(kElements / kBlockElements);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  const auto reader = v1::SyncService::NewStub(MakeChannel({.address = server_->address()}))
                          ->PullFragment(&context, request);
  v1::PullMessage message;
  int64_t read = 0;
  while (reader->Read(&message)) {
    if (read++ % 8 == 0) absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(reader->Finish().ok());
  ended_.WaitForNotification();
  EXPECT_EQ(read, kChunks + 1);
  EXPECT_EQ(made, kChunks);
  EXPECT_EQ(most, 1);
  server_->Shutdown(absl::Seconds(60));
  EXPECT_EQ(live, 0);
}

TEST_F(PullReactorTest, AChunkThatCannotBeReadEndsTheStream) {
  service_.pull.on_request = [](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    PullSource answer = AnswerOf(SourceOf(MakeFragment(1 << 20), FourBytesEach));
    answer.next = [next = std::move(answer.next),
                   calls = 0]() mutable -> absl::StatusOr<CodedBlocks> {
      if (++calls == 3) return absl::UnavailableError("a newer version");
      return next();
    };
    return answer;
  };
  Serve(1 << 20);
  EXPECT_EQ(Pull(OneChannel(), {{0, 8192}}).status(), absl::UnavailableError("a newer version"));
  EXPECT_EQ(wire_.payload, 2 << 20) << "what came before it is there";
}

// A handler's fault must not send more or less than its header says.
TEST_F(PullReactorTest, ChunksBeyondTheHeadersBytesAreAnError) {
  service_.pull.on_request = [](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    PullSource answer = AnswerOf(SourceOf(MakeFragment(1000), FourBytesEach));
    answer.header.set_payload_bytes(3999);
    return answer;
  };
  Serve(1000);
  EXPECT_TRUE(absl::IsInternal(Pull(OneChannel(), {{0, 8}}).status()));
}

TEST_F(PullReactorTest, CountsWhatItSends) {
  service_.pull.on_request = [](const v1::PullRequest&) -> absl::StatusOr<PullSource> {
    return AnswerOf(SourceOf(MakeFragment(1 << 20), FourBytesEach));
  };
  WireBytes at_server;
  service_.pull.on_end = [&](const absl::Status& status, const WireBytes& bytes) {
    EXPECT_TRUE(status.ok());
    at_server = bytes;
    ended_.Notify();
  };
  Serve(1 << 20);
  ASSERT_TRUE(Pull(OneChannel(), {{0, 8192}}).ok());
  ended_.WaitForNotification();
  EXPECT_EQ(at_server.payload, 4 << 20);
  EXPECT_EQ(wire_.payload, at_server.payload);
  EXPECT_EQ(wire_.total, at_server.total);
}

}  // namespace
}  // namespace longhaul
