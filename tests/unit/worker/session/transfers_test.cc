// Pushes and pulls against a server that fails as a test says. Over real gRPC.
#include "worker/session/transfers.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/io/digest.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/segment_limit.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul::session {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSentElements = 300;  // Three blocks, the last one short.

// Holds one fragment of fp32 values. What pushes and pulls answer comes from a queue, then they
// succeed.
class SyncServer : public v1::SyncService::Service {
 public:
  // kSecond: the second chunk's payload. kOvertaken: a commit comes after the first chunk.
  enum class Damage { kNone, kPayload, kSecond, kDigest, kOvertaken };

  SyncServer() { server_ = *Server::Start({.address = "127.0.0.1:0"}, {this}); }
  ~SyncServer() override { server_.reset(); }
  const std::string& address() const { return server_->address(); }
  int port() const { return server_->port(); }

  grpc::Status PushFragment(grpc::ServerContext*, grpc::ServerReader<v1::PushMessage>* reader,
                            v1::PushResponse*) override {
    v1::PushMessage message;
    while (reader->Read(&message)) {
      absl::MutexLock lock(&mutex_);
      if (message.has_header()) {
        ++streams[message.header().version()];
        chunks.clear();
      } else {
        chunks.push_back(static_cast<int64_t>(message.payload().size()));
      }
    }
    absl::MutexLock lock(&mutex_);
    ++pushes;
    return NextAnswer();
  }
  grpc::Status GetContribution(grpc::ServerContext*, const v1::GetContributionRequest*,
                               v1::GetContributionResponse* response) override {
    absl::MutexLock lock(&mutex_);
    held_ += held_each;
    if (held_ > 0) *response->mutable_blocks() = BlocksToProto({{0, held_}});
    return grpc::Status::OK;
  }
  grpc::Status PullFragment(grpc::ServerContext*, const v1::PullRequest* request,
                            grpc::ServerWriter<v1::PullMessage>* writer) override {
    absl::MutexLock lock(&mutex_);
    ++pulls;
    const grpc::Status answer = NextAnswer();
    if (!answer.ok()) return answer;
    Damage damage = Damage::kNone;
    if (!damages.empty()) {
      damage = damages.front();
      damages.pop_front();
    }
    Send(*request, damage, *writer);
    if (damage != Damage::kOvertaken) return grpc::Status::OK;
    ++version;
    return {grpc::StatusCode::UNAVAILABLE, "a newer version was committed"};
  }

  absl::Mutex mutex_;
  // Of the outer parameters.
  int64_t version ABSL_GUARDED_BY(mutex_) = 5;
  std::deque<grpc::Status> answers ABSL_GUARDED_BY(mutex_);
  std::deque<Damage> damages ABSL_GUARDED_BY(mutex_);
  // How many blocks more are here whenever somebody asks.
  int64_t held_each ABSL_GUARDED_BY(mutex_) = 0;
  // Pushes that have begun, by version.
  std::map<int64_t, int> streams ABSL_GUARDED_BY(mutex_);
  // The payload bytes of each chunk of the last push.
  std::vector<int64_t> chunks ABSL_GUARDED_BY(mutex_);
  int pushes ABSL_GUARDED_BY(mutex_) = 0, pulls ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<float> values = std::vector<float>(kSentElements, 3);

 private:
  grpc::Status NextAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (answers.empty()) return grpc::Status::OK;
    grpc::Status next = answers.front();
    answers.pop_front();
    return next;
  }
  void Send(const v1::PullRequest& request, Damage damage,
            grpc::ServerWriter<v1::PullMessage>& writer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t elements = static_cast<int64_t>(values.size());
    const std::vector<BlockRange> blocks = BlocksFromProto(request.blocks());
    auto coded = std::make_shared<CodedBlocks>();
    coded->segments = CutSegments(blocks, elements);
    coded->payload = AlignedBuffer(4 * ElementsOf(blocks, elements));
    uint8_t* end = coded->payload.data();
    for (const BlockRange& range : blocks) {
      const int64_t bytes = 4 * ElementsOf({range}, elements);
      std::memcpy(end, values.data() + range.first * kBlockElements, bytes);
      end += bytes;
    }
    const Digest128 digest =
        DigestOf({reinterpret_cast<const char*>(coded->payload.data()), coded->payload.size()});
    v1::PullMessage first;
    first.mutable_header()->set_version(request.version() < 0 ? version : request.version());
    first.mutable_header()->set_codec(v1::FP32);
    first.mutable_header()->set_payload_bytes(static_cast<int64_t>(coded->payload.size()));
    first.mutable_header()->mutable_digest()->set_high(digest.high);
    first.mutable_header()->mutable_digest()->set_low(digest.low +
                                                      (damage == Damage::kDigest ? 1 : 0));
    writer.Write(first);
    int number = 0;
    for (const std::string& chunk : ChunksOf(coded)) {
      v1::PullMessage message;
      message.ParseFromString(chunk);
      const bool second = ++number == 2 && damage == Damage::kSecond;
      if (second || damage == Damage::kPayload) message.mutable_payload()->front() ^= 1;
      writer.Write(message);
      if (damage == Damage::kOvertaken) return;
    }
  }

  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Server> server_;
};

class TransfersTest : public ::testing::Test {
 protected:
  Transfers::Options Options(const std::string& address) {
    return {.coordinator = address,
            .job = "job",
            .pool = "site-a",
            .incarnation = "0123456789abcdef",
            .backoff = {.initial = absl::Milliseconds(1), .max = absl::Milliseconds(5)},
            .log = Logger({.stream = &log_}),
            .on_damaged_pull = [this] { ++damaged_pulls_; }};
  }
  absl::Status Push(Transfers& transfers, int fragment = 0, std::stop_token stop = {}) const {
    auto coded = std::make_shared<CodedContribution>();
    coded->blocks = {map_.segments(), AlignedBuffer(4 * kSentElements)};
    return transfers.Push(fragment, 1, RoundKind::kOuter, *exact_, coded, 2, stop);
  }
  absl::StatusOr<std::vector<float>> Pull(Transfers& transfers, int fragment = 0) {
    return Pull(transfers, fragment, map_);
  }
  absl::StatusOr<std::vector<float>> Pull(Transfers& transfers, int fragment,
                                          const FragmentMap& map) {
    PulledParameters into({.map = &map, .codec = exact_.get()});
    const auto version = transfers.Pull(
        {.map = &map, .fragment = fragment, .whole = true, .codec = exact_.get()}, into, {});
    if (!version.ok()) return version.status();
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(*version, server_.version);
    return std::move(into).Release();
  }

  const FragmentLayout layout_{
      .name = "0", .units = {{0, 0, kSentElements}}, .elements = kSentElements};
  const FragmentMap map_{layout_, OwnedBlocks(layout_, 0, 1)};
  const std::unique_ptr<Codec> exact_ = *MakeCodec({.kind = CodecKind::kFp32});
  std::ostringstream log_;
  std::atomic<int> damaged_pulls_ = 0;
  SyncServer server_;
  Transfers transfers_{Options(server_.address())};
};

// A fragment of 8 MiB, and eight channels.
class ManyStreamsTest : public TransfersTest {
 protected:
  static constexpr int64_t kMany = 2 << 20, kMiB = 1 << 20;

  Transfers::Options Options() {
    Transfers::Options options = TransfersTest::Options(server_.address());
    options.channels = 8;
    return options;
  }
  absl::Status PushMany(Transfers& transfers, int64_t version, std::stop_token stop = {}) const {
    auto coded = std::make_shared<CodedContribution>();
    coded->blocks = {many_.segments(), AlignedBuffer(4 * kMany)};
    return transfers.Push(0, version, RoundKind::kOuter, *exact_, coded, 2, stop);
  }
  absl::StatusOr<std::vector<float>> PullMany(Transfers& transfers) {
    return Pull(transfers, 0, many_);
  }
  // The next push is too slow. Then all of it is there.
  void FailSlowly() {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers = {grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "no progress")};
    server_.held_each = kMany / kBlockElements;
  }
  int Streams(int64_t version) {
    absl::MutexLock lock(&server_.mutex_);
    return server_.streams[version];
  }

  const FragmentLayout many_layout_{.name = "0", .units = {{0, 0, kMany}}, .elements = kMany};
  const FragmentMap many_{many_layout_, OwnedBlocks(many_layout_, 0, 1)};
};

// As a coordinator ends the calls that are under way when it is asked to stop.
TEST_F(TransfersTest, AServerThatGoesDownIsNoRefusal) {
  for (const auto code : {grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE,
                          grpc::StatusCode::DEADLINE_EXCEEDED}) {
    {
      absl::MutexLock lock(&server_.mutex_);
      server_.answers.assign(10, grpc::Status(code, "going down"));
    }
    EXPECT_TRUE(Push(transfers_).ok()) << code;
    {
      absl::MutexLock lock(&server_.mutex_);
      server_.answers.assign(10, grpc::Status(code, "going down"));
    }
    const auto pulled = Pull(transfers_);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(*pulled, server_.values);
  }
}

TEST_F(TransfersTest, ATransferThatFailsAgainAndAgainIsToldMoreAndMoreSeldom) {
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers.assign(15, grpc::Status(grpc::StatusCode::UNAVAILABLE, "nothing passes"));
  }
  EXPECT_TRUE(Push(transfers_).ok());
  for (const int times : {4, 8}) {
    EXPECT_THAT(log_.str(), HasSubstr(absl::StrCat("a transfer failed ", times,
                                                   " times, at last by UNAVAILABLE: nothing")));
  }
  EXPECT_THAT(log_.str(), Not(HasSubstr("failed 5 times")));
}

TEST_F(TransfersTest, ARefusalIsNotTriedAgain) {
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers.assign(2, grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "closed"));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(Push(transfers_)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Pull(transfers_).status()));
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.pushes, 1);
  EXPECT_EQ(server_.pulls, 1);
}

TEST_F(TransfersTest, DamagedBytesArePulledAgain) {
  int pulls = 0;
  for (const auto damage : {SyncServer::Damage::kPayload, SyncServer::Damage::kDigest}) {
    {
      absl::MutexLock lock(&server_.mutex_);
      server_.damages = {damage};
    }
    const auto pulled = Pull(transfers_);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(*pulled, server_.values);
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.pulls, pulls += 2);
  }
  EXPECT_EQ(damaged_pulls_, 2);
}

TEST_F(TransfersTest, ADigestThatStaysWrongIsToldInTheEnd) {
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.damages.assign(100, SyncServer::Damage::kDigest);
  }
  const absl::Status status = Pull(transfers_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("digest"), std::string::npos) << status;
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.pulls, Transfers::kDamagedMax);
}

TEST_F(TransfersTest, DamageOnTheWayUpIsSentAgainAndBounded) {
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers.assign(2, grpc::Status(grpc::StatusCode::DATA_LOSS, "a hash differs"));
  }
  EXPECT_TRUE(Push(transfers_).ok());
  {
    absl::MutexLock lock(&server_.mutex_);
    EXPECT_EQ(server_.pushes, 3);
    server_.answers.assign(100, grpc::Status(grpc::StatusCode::DATA_LOSS, "a hash differs"));
  }
  EXPECT_TRUE(absl::IsDataLoss(Push(transfers_)));
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.pushes, 3 + Transfers::kDamagedMax);
}

// Eight chunks. Each attempt brings one, and the next is damaged.
TEST_F(ManyStreamsTest, DamageDoesNotEndATransferThatProgresses) {
  Transfers transfers(TransfersTest::Options(server_.address()));
  server_.values.assign(kMany, 3);
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.damages.assign(7, SyncServer::Damage::kSecond);
    server_.held_each = kMany / kBlockElements / 8;
  }
  const auto pulled = PullMany(transfers);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(*pulled, server_.values);
  EXPECT_THAT(
      log_.str(),
      HasSubstr(
          "block 2048, payload offset 1048576: the payload does not have its hash; trying again"));
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers.assign(7, grpc::Status(grpc::StatusCode::DATA_LOSS, "a hash differs"));
  }
  EXPECT_TRUE(PushMany(transfers, 1).ok());
}

// The coordinator keeps no version for a reader. A pull that commits overtake begins again at once,
// as often as needed.
TEST_F(ManyStreamsTest, APullThatCommitsOvertakeBeginsAgainAtOnce) {
  for (const int channels : {1, 8}) {
    Transfers::Options options = TransfersTest::Options(server_.address());
    options.channels = channels;
    options.backoff = {.initial = absl::Hours(100), .max = absl::Hours(100)};
    Transfers transfers(options);
    server_.values.assign(kMany, 3);
    {
      absl::MutexLock lock(&server_.mutex_);
      server_.damages.assign(6, SyncServer::Damage::kOvertaken);
    }
    const auto pulled = PullMany(transfers);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(*pulled, server_.values);
  }
}

// Headers and small calls pass, as well as every bulk byte in small segments.
TEST_F(ManyStreamsTest, SmallSegmentsPassWhereLargePacketsVanish) {
  server_.values.assign(kMany, 3);
  for (const auto direction : {CuttingProxy::Direction::kUp, CuttingProxy::Direction::kDown}) {
    const bool up = direction == CuttingProxy::Direction::kUp;
    const CuttingProxy proxy({.target_port = server_.port(),
                              .direction = direction,
                              .bytes_each = 4000,
                              .pause = absl::Milliseconds(100),
                              .segment_bytes_max = kSmallSegmentBytes});
    Transfers::Options options = TransfersTest::Options(proxy.address());
    options.stood_still = absl::Milliseconds(50);
    Transfers transfers(options);
    if (up) {
      EXPECT_TRUE(PushMany(transfers, 1).ok());
    } else {
      const auto pulled = PullMany(transfers);
      ASSERT_TRUE(pulled.ok()) << pulled.status();
      EXPECT_EQ(*pulled, server_.values);
    }
    EXPECT_EQ(proxy.cuts(), Transfers::kStandsMax);
    EXPECT_THAT(log_.str(), HasSubstr("large packets seem to be lost on the network"));
    log_.str("");
    // Later ones begin so.
    EXPECT_TRUE(up ? PushMany(transfers, 2).ok() : PullMany(transfers).ok());
    EXPECT_EQ(proxy.cuts(), Transfers::kStandsMax);
  }
}

// Several connections break before a chunk has passed. Then all is well, and to carry 8 MiB in
// chunks of 64 KiB, or of a tile (here 256 KiB), would be slow.
class MendedPathTest : public ManyStreamsTest {
 protected:
  std::string Proxy(CuttingProxy::Direction direction) {
    proxy_.emplace(CuttingProxy::Options{.target_port = server_.port(),
                                         .direction = direction,
                                         .bytes_each = 40 << 10,
                                         .cuts = kCuts});
    return proxy_->address();
  }

  static constexpr int kCuts = 4;
  std::optional<CuttingProxy> proxy_;
};

TEST_F(MendedPathTest, ChunksOfAPushGrowAgain) {
  Transfers transfers(TransfersTest::Options(Proxy(CuttingProxy::Direction::kUp)));
  ASSERT_TRUE(PushMany(transfers, 1).ok());
  EXPECT_EQ(proxy_->cuts(), kCuts);
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.chunks.front(), kMiB / 4);
  EXPECT_EQ(server_.chunks.back(), kMiB);
  EXPECT_LT(server_.chunks.size(), 20);
}

TEST_F(MendedPathTest, ChunksOfAPullGrowAgain) {
  Transfers transfers(TransfersTest::Options(Proxy(CuttingProxy::Direction::kDown)));
  server_.values.assign(kMany, 3);
  const auto pulled = PullMany(transfers);
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(*pulled, server_.values);
  EXPECT_EQ(proxy_->cuts(), kCuts);
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_LT(server_.pulls, 30);
}

// Which chunks of a push have arrived is known when the server is asked.
TEST_F(ManyStreamsTest, APushThatBroughtChunksGoesOnWithChunksOfThatSize) {
  Transfers transfers(TransfersTest::Options(server_.address()));
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken")};
    server_.held_each = kMany / kBlockElements / 8;
  }
  ASSERT_TRUE(PushMany(transfers, 1).ok());
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.pushes, 2);
  EXPECT_EQ(server_.chunks, std::vector<int64_t>(7, kMiB));
}

TEST_F(TransfersTest, AStopEndsTheRetries) {
  {
    absl::MutexLock lock(&server_.mutex_);
    server_.answers.assign(1'000'000, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"));
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Push(transfers_, 0, stop.get_token())));
}

TEST_F(ManyStreamsTest, APushUsesAllChannels) {
  Transfers transfers(Options());
  ASSERT_TRUE(PushMany(transfers, 1).ok());
  EXPECT_EQ(Streams(1), 8);
}

// With eight each stream would send a chunk every 84 s.
TEST_F(ManyStreamsTest, APacedPushUsesNoMoreStreamsThanItKeepsMoving) {
  Transfers::Options options = Options();
  options.push_bytes_per_second = 1e5;
  Transfers transfers(options);
  std::stop_source stop;
  std::jthread pushing([&] { (void)PushMany(transfers, 1, stop.get_token()); });
  while (Streams(1) == 0) absl::SleepFor(absl::Milliseconds(1));
  // All would begin at once.
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(Streams(1), 1);
  stop.request_stop();
}

TEST_F(ManyStreamsTest, AServerThatFindsThemTooSlowGetsAQuarterOfThem) {
  Transfers::Options options = Options();
  options.slow_attempt = absl::ZeroDuration();
  Transfers transfers(options);
  FailSlowly();
  ASSERT_TRUE(PushMany(transfers, 1).ok());
  ASSERT_TRUE(PushMany(transfers, 2).ok());
  EXPECT_EQ(Streams(2), 2);
  // That push shows that the link is faster now.
  ASSERT_TRUE(PushMany(transfers, 3).ok());
  EXPECT_EQ(Streams(3), 8);
}

TEST_F(ManyStreamsTest, AFastWayDownSaysNothingAboutTheWayUp) {
  Transfers::Options options = Options();
  options.slow_attempt = absl::ZeroDuration();
  Transfers transfers(options);
  FailSlowly();
  ASSERT_TRUE(PushMany(transfers, 1).ok());
  ASSERT_TRUE(Pull(transfers).ok());
  ASSERT_TRUE(PushMany(transfers, 2).ok());
  EXPECT_EQ(Streams(2), 2);
}

TEST_F(TransfersTest, AServerThatAsksForTimeGetsItAlsoAfterProgress) {
  {
    absl::MutexLock lock(&server_.mutex_);
    const absl::Status full = absl::ResourceExhaustedError("too many streams");
    for (const absl::Duration wait : {absl::ZeroDuration(), absl::Hours(1)})
      server_.answers.push_back(ToGrpcStatus(WithRetryDelay(full, wait)));
    server_.held_each = 1;
  }
  const auto pushes = [&] {
    absl::MutexLock lock(&server_.mutex_);
    return server_.pushes;
  };
  std::stop_source stop;
  std::jthread pushing(
      [&] { EXPECT_TRUE(absl::IsCancelled(Push(transfers_, 0, stop.get_token()))); });
  while (pushes() < 2) absl::SleepFor(absl::Milliseconds(1));
  // Another attempt would begin at once.
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(pushes(), 2);
  stop.request_stop();
}

TEST_F(TransfersTest, AFragmentIsExchangedWithTheEndpointThatItsPlanNames) {
  SyncServer other;
  other.values.assign(kSentElements, 7);
  transfers_.SetEndpoint(1, other.address());
  ASSERT_TRUE(Push(transfers_, 0).ok());
  ASSERT_TRUE(Push(transfers_, 1).ok());
  EXPECT_EQ(*Pull(transfers_, 0), server_.values);
  EXPECT_EQ(*Pull(transfers_, 1), other.values);
  {
    absl::MutexLock lock(&other.mutex_);
    EXPECT_EQ(other.pushes, 1);
    EXPECT_EQ(other.pulls, 1);
  }
  transfers_.SetEndpoint(1, "");  // The coordinator again.
  EXPECT_EQ(*Pull(transfers_, 1), server_.values);
  absl::MutexLock lock(&server_.mutex_);
  EXPECT_EQ(server_.pushes, 1);
  EXPECT_EQ(server_.pulls, 2);
}

}  // namespace
}  // namespace longhaul::session
