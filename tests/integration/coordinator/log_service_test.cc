// Log lines from agents through a coordinator to readers, over real gRPC.
#include <algorithm>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "longhaul/v1/logs.grpc.pb.h"
#include "tests/integration/coordinator/coordinator_fixture.h"
#include "worker/agent/log_server.h"

namespace longhaul {
namespace {

class LogServiceTest : public CoordinatorFixture {
 protected:
  using Stream = grpc::ClientReader<v1::FollowLogsResponse>;

  std::unique_ptr<LogServer> Serve(const std::string& pool, LogRing* ring) {
    return std::make_unique<LogServer>(LogServer::Options{
        .coordinator = address(), .pool = pool, .ring = ring, .gather = absl::Milliseconds(1)});
  }
  std::unique_ptr<Stream> Read(grpc::ClientContext* context, const v1::FollowLogsRequest& request) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    stub_ = v1::LogService::NewStub(MakeChannel({.address = address()}));
    return stub_->FollowLogs(context, request);
  }
  // All lines of a request that does not follow.
  std::string Tail(const v1::FollowLogsRequest& request) {
    grpc::ClientContext context;
    const auto stream = Read(&context, request);
    std::string text;
    for (v1::FollowLogsResponse lines; stream->Read(&lines);)
      absl::StrAppend(&text, lines.pool(), ": ", lines.text());
    EXPECT_TRUE(stream->Finish().ok());
    return text;
  }
  // Waits until the agents' streams are open: each has shown a line.
  void AwaitSources(int count) {
    v1::FollowLogsRequest request;
    request.set_tail(10);
    const absl::Time deadline = absl::Now() + kCallTimeout;
    for (int found = 0; found < count && absl::Now() < deadline;) {
      const std::string text = Tail(request);
      found = static_cast<int>(std::count(text.begin(), text.end(), ':'));
    }
  }
  static v1::FollowLogsRequest Request(const std::string& job, const std::string& pool, int tail,
                                       bool follow = false) {
    v1::FollowLogsRequest request;
    request.set_job_id(job);
    request.set_pool(pool);
    request.set_tail(tail);
    request.set_follow(follow);
    return request;
  }

  std::unique_ptr<v1::LogService::Stub> stub_;
};

TEST_F(LogServiceTest, ShowsTheNewestLinesOfAPoolOrAJob) {
  LogRing east, west;
  for (LogRing* ring : {&east, &west}) {
    ring->Add("idle");
    ring->SetJob("j-1");
    ring->Add("trains");
  }
  east.SetJob("j-2");
  east.Add("other");
  const auto of_east = Serve("east", &east), of_west = Serve("west", &west);
  AwaitSources(2);
  EXPECT_EQ(Tail(Request("", "east", 2)), "east: trains\nother\n");
  EXPECT_EQ(Tail(Request("j-2", "", 10)), "east: other\n");
  EXPECT_EQ(Tail(Request("j-1", "west", 10)), "west: trains\n");
  EXPECT_EQ(Tail(Request("", "nobody", 10)), "");
  EXPECT_EQ(Tail(Request("", "", 0)), "");
  grpc::ClientContext context;
  const auto refused = Read(&context, Request("", "", 10'001));
  v1::FollowLogsResponse none;
  EXPECT_FALSE(refused->Read(&none));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LogServiceTest, FollowsAlsoPoolsThatComeLater) {
  LogRing east, late;
  east.Add("before");
  auto of_east = Serve("east", &east);
  AwaitSources(1);
  grpc::ClientContext context;
  const auto stream = Read(&context, Request("", "", 1, true));
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "before\n");
  east.Add("after");
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "after\n");
  late.Add("hello");
  const auto of_late = Serve("late", &late);
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.pool(), "late");
  // The end of one source does not end the reading.
  of_east.reset();
  late.Add("still there");
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "still there\n");
  context.TryCancel();
}

TEST_F(LogServiceTest, AReaderThatDoesNotReadCostsBoundedMemoryAndIsToldWhatItLost) {
  LogRing ring(8 << 20);
  ring.Add("first");
  const auto served = Serve("east", &ring);
  AwaitSources(1);
  grpc::ClientContext context;
  const auto stream = Read(&context, Request("", "", 1, true));
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  // 60 MB. The queue, the ring and the connections hold only a part of it.
  const std::string line(1000, 'x');
  const int written = 60'000;
  for (int i = 0; i < written; ++i) {
    ring.Add(line);
    if (i % 5000 == 0) absl::SleepFor(absl::Milliseconds(20));
  }
  // A line tells how many were lost before it.
  std::jthread ticker([&](const std::stop_token& stop) {
    for (int tick = 1; !stop.stop_requested(); ++tick) {
      ring.Add(absl::StrCat("tick ", tick));
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  int64_t seen = 0, dropped = 0, ticks = 0;
  while (ticks == 0 && stream->Read(&lines)) {
    seen += std::count(lines.text().begin(), lines.text().end(), '\n');
    dropped += lines.dropped();
    if (const size_t at = lines.text().rfind("tick "); at != std::string::npos)
      ticks = std::stoll(lines.text().substr(at + 5));
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(seen + dropped, written + ticks);
  context.TryCancel();
}

TEST_F(LogServiceTest, AgentsComeBackAfterARestart) {
  LogRing ring;
  ring.Add("kept");
  const std::string before = address();
  const auto served = Serve("east", &ring);
  AwaitSources(1);
  grpc::ClientContext context;
  const auto stream = Read(&context, Request("", "", 5, true));
  // gRPC itself cancels a call that no handler has yet.
  v1::FollowLogsResponse lines;
  EXPECT_TRUE(stream->Read(&lines));
  server_->Shutdown(absl::Seconds(1));
  EXPECT_FALSE(stream->Read(&lines));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.reset();
  coordinator::CoordinatorServerOptions options = Options();
  options.listen = before;
  auto again = coordinator::CoordinatorServer::Start(std::move(options));
  ASSERT_TRUE(again.ok()) << again.status();
  server_ = *std::move(again);
  AwaitSources(1);
  EXPECT_EQ(Tail(Request("", "east", 5)), "east: kept\n");
}

}  // namespace
}  // namespace longhaul
