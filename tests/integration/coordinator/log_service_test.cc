// Log lines from agents through a coordinator to readers, over real gRPC.
#include <algorithm>
#include <limits>
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
  std::unique_ptr<Stream> Read(grpc::ClientContext* context, const v1::FollowLogsRequest& request,
                               absl::Duration timeout = kCallTimeout) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
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

// An agent that answers readers who have not asked it.
TEST_F(LogServiceTest, AnAgentCannotWriteIntoTheStreamOfAReaderOfAnotherPool) {
  LogRing east;
  east.Add("begins");
  const auto of_east = Serve("east", &east);
  AwaitSources(1);
  grpc::ClientContext reading;
  const auto stream = Read(&reading, Request("", "east", 10, /*follow=*/true));
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "begins\n");
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto agents = v1::LogService::NewStub(MakeChannel({.address = address()}));
  const auto west = agents->ServeLogs(&context);
  v1::ServeLogsRequest message;
  message.set_pool("west");
  ASSERT_TRUE(west->Write(message));
  // Numbers of readers are small. The hub answers each with a stop.
  v1::ServeLogsResponse answer;
  for (int reader = 1; reader <= 20; ++reader) {
    message.Clear();
    message.set_reader(reader);
    message.set_text("forged\n");
    ASSERT_TRUE(west->Write(message));
    ASSERT_TRUE(west->Read(&answer)) << "the hub took lines for reader " << reader;
    EXPECT_EQ(answer.reader(), reader);
    EXPECT_TRUE(answer.stop());
  }
  east.Add("goes on");
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.pool(), "east");
  EXPECT_EQ(lines.text(), "goes on\n");
  context.TryCancel();
  reading.TryCancel();
}

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
  // It is open while everything is written, however slow this machine or build is.
  const auto stream = Read(&context, Request("", "", 1, true), absl::Minutes(10));
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

// Of a message of a reader that follows: where it is afterwards.
v1::LogPosition PositionOf(const v1::FollowLogsResponse& lines) {
  v1::LogPosition at;
  at.set_pool(lines.pool());
  at.set_node(lines.node());
  at.set_ring(lines.ring());
  at.set_next(lines.next());
  return at;
}

TEST_F(LogServiceTest, AReaderThatComesBackGoesOnWhereItStopped) {
  LogRing ring(4000), other;
  ring.Add("before");
  const auto served = Serve("east", &ring), of_west = Serve("west", &other);
  AwaitSources(1);
  v1::FollowLogsRequest request = Request("", "east", 1, true);
  v1::FollowLogsResponse lines;
  {
    grpc::ClientContext context;
    const auto stream = Read(&context, request);
    ASSERT_TRUE(stream->Read(&lines));
    EXPECT_EQ(lines.text(), "before\n");
    context.TryCancel();
  }
  EXPECT_EQ(lines.ring(), ring.id());
  EXPECT_EQ(lines.next(), 1);
  *request.add_positions() = PositionOf(lines);
  const auto first_of = [&] {
    grpc::ClientContext context;
    const auto stream = Read(&context, request);
    EXPECT_TRUE(stream->Read(&lines));
    context.TryCancel();
  };
  // Where it is known from the beginning, also without a line.
  first_of();
  EXPECT_EQ(lines.text(), "");
  EXPECT_EQ(lines.next(), 1);
  ring.Add("meanwhile");
  ring.Add("and then");
  first_of();
  EXPECT_EQ(lines.text(), "meanwhile\nand then\n");
  EXPECT_EQ(lines.dropped(), 0);
  // What the ring has not got any more is counted.
  for (int i = 3; i < 1000; ++i) ring.Add(absl::StrCat("line ", i));
  first_of();
  EXPECT_GT(lines.dropped(), 900);
  EXPECT_EQ(lines.text().substr(0, lines.text().find('\n')),
            absl::StrCat("line ", 1 + lines.dropped()));
  EXPECT_EQ(lines.next(), 1000);
  // Those of another run of the agent are other lines.
  request.mutable_positions(0)->set_ring(ring.id() + 1);
  request.mutable_positions(0)->set_next(1000);
  first_of();
  EXPECT_EQ(lines.dropped() + std::count(lines.text().begin(), lines.text().end(), '\n'), 1000);
  // A place that no ring has.
  request.mutable_positions(0)->set_ring(ring.id());
  for (const int64_t next : {int64_t{-5}, std::numeric_limits<int64_t>::max()}) {
    request.mutable_positions(0)->set_next(next);
    first_of();
    EXPECT_EQ(lines.next(), 1000);
  }
}

TEST_F(LogServiceTest, TooManyPositionsAreRefused) {
  v1::FollowLogsRequest request = Request("", "", 1, true);
  for (int i = 0; i <= 10'000; ++i) request.add_positions()->set_node(i);
  grpc::ClientContext context;
  const auto refused = Read(&context, request);
  v1::FollowLogsResponse none;
  EXPECT_FALSE(refused->Read(&none));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// The reader's stream stays; that of the agent does not.
TEST_F(LogServiceTest, AnAgentThatComesBackGoesOnWhereEachReaderIs) {
  LogRing ring, second;  // The agent reads from both as long as it lives.
  ring.Add("old");
  ring.Add("before");
  auto served = Serve("east", &ring);
  AwaitSources(1);
  grpc::ClientContext context;
  const auto stream = Read(&context, Request("", "", 1, true));
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "before\n");
  served.reset();
  ring.Add("meanwhile");
  served = Serve("east", &ring);
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "meanwhile\n");
  // Another run: all of its lines.
  second.Add("again");
  second.Add("here");
  served.reset();
  served = Serve("east", &second);
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "again\nhere\n");
  EXPECT_EQ(lines.ring(), second.id());
  context.TryCancel();
}

TEST_F(LogServiceTest, AnAgentIsReadUnderTheNumberThatItGets) {
  LogRing ring;
  ring.Add("first");
  grpc::ClientContext context;
  const auto stream = Read(&context, Request("", "", 1, true));
  LogServer served({.coordinator = address(),
                    .pool = "east",
                    .node = std::nullopt,
                    .ring = &ring,
                    .gather = absl::Milliseconds(1)});
  served.SetNode(2);
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.node(), 2);
  EXPECT_EQ(lines.text(), "first\n");
  served.SetNode(1);
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.node(), 1);
  context.TryCancel();
}

TEST_F(LogServiceTest, AnAgentWithoutANumberEnds) {
  LogRing ring;
  LogServer({.coordinator = address(), .pool = "east", .node = std::nullopt, .ring = &ring});
}

// Of an earlier version: it numbers nothing, and knows `tail` alone.
TEST_F(LogServiceTest, AnAgentThatDoesNotNumberItsLinesIsReadAsBefore) {
  const auto agent = v1::LogService::NewStub(MakeChannel({.address = address()}));
  grpc::ClientContext agent_context;
  agent_context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto serving = agent->ServeLogs(&agent_context);
  v1::ServeLogsRequest message;
  message.set_pool("east");
  ASSERT_TRUE(serving->Write(message));
  v1::FollowLogsRequest request = Request("", "", 3, true);
  v1::LogPosition* at = request.add_positions();
  at->set_pool("west");
  at->set_ring(7);
  grpc::ClientContext context;
  const auto stream = Read(&context, request);
  v1::ServeLogsResponse demand;
  ASSERT_TRUE(serving->Read(&demand));
  EXPECT_EQ(demand.demand().tail(), 3);
  // Nobody is told of other nodes.
  EXPECT_EQ(demand.demand().positions_size(), 0);
  message.Clear();
  message.set_reader(demand.reader());
  message.set_text("line\n");
  ASSERT_TRUE(serving->Write(message));
  v1::FollowLogsResponse lines;
  ASSERT_TRUE(stream->Read(&lines));
  EXPECT_EQ(lines.text(), "line\n");
  EXPECT_EQ(lines.ring(), 0u);
  context.TryCancel();
  agent_context.TryCancel();
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
