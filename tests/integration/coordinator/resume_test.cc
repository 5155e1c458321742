// Pushes and pulls of a rank over connections that break, and over restarts of the coordinator:
// only what is missing is sent again.
#include <cstring>
#include <optional>
#include <stop_token>
#include <thread>

#include "common/base/clock.h"
#include "common/rpc/fragment_client.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/cutting_proxy.h"
#include "worker/session/transfers.h"

namespace longhaul {
namespace {

using session::CodedContribution;
using session::FragmentMap;
using session::PulledParameters;
using session::Transfers;

// One pool, two fragments of 6 MiB in fp32: seven chunks each, the last one short.
constexpr int64_t kLarge = 6 * (int64_t{1} << 18) + 1000;
constexpr int64_t kBytes = 4 * kLarge, kChunk = 1 << 20;

class ResumeTest : public ExchangeFixture {
 protected:
  using Direction = CuttingProxy::Direction;

  void SetUp() override {
    ExchangeFixture::SetUp();
    v1::JobSpec spec = Spec("resumed", 1);
    spec.mutable_model()->mutable_synthetic()->set_elements(kLarge);
    const auto submitted = Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    id_ = submitted->job().id();
    pool_.emplace(address(), "site-a");
    ASSERT_TRUE(pool_->Join().ok());
    ASSERT_TRUE(pool_->OpenPlan(id_).ok());
    // It is asked to seed.
    ASSERT_TRUE(pool_->NextEvent().ok());
    for (int f = 0; f < kFragments; ++f) {
      ASSERT_TRUE(pool_->Push(f, 0, v1::SEED, CodecKind::kFp32, Values(f)).ok());
      ASSERT_TRUE(pool_->NextCommit().ok());
    }
    exact_ = *MakeCodec({.kind = CodecKind::kFp32});
  }

  static std::vector<float> Values(int which) {
    std::vector<float> values(kLarge);
    for (int64_t i = 0; i < kLarge; ++i) values[i] = static_cast<float>((i * 31 + which) % 1009);
    return values;
  }
  static FragmentMap Map() {
    const FragmentLayout layout{.name = "0", .units = {{0, 0, kLarge}}, .elements = kLarge};
    return FragmentMap(layout, OwnedBlocks(layout, 0, 1));
  }
  std::shared_ptr<const CodedContribution> Coded(const std::vector<float>& values) const {
    auto coded = std::make_shared<CodedContribution>();
    coded->blocks = {Map().segments(), AlignedBuffer(kBytes)};
    std::memcpy(coded->blocks.payload.data(), values.data(), kBytes);
    return coded;
  }
  CodedSource Source(const std::vector<float>& values) const {
    const auto coded = Coded(values);
    return SourceOf(std::shared_ptr<const CodedBlocks>(coded, &coded->blocks),
                    [](int32_t elements) { return 4 * int64_t{elements}; });
  }
  void Proxy(Direction direction, int64_t bytes_each, int cuts, absl::Duration pause = {}) {
    transfers_.reset();
    proxy_.emplace(CuttingProxy::Options{.target_port = Port(),
                                         .direction = direction,
                                         .bytes_each = bytes_each,
                                         .cuts = cuts,
                                         .pause = pause});
    transfers_.emplace(Transfers::Options{
        .coordinator = proxy_->address(),
        .job = id_,
        .pool = "site-a",
        .incarnation = "0123456789abcdef",
        .backoff = {.initial = absl::Milliseconds(1), .max = absl::Milliseconds(20)}});
  }
  int Port() const { return std::stoi(address().substr(address().rfind(':') + 1)); }
  absl::Status Push(const std::vector<float>& values, std::stop_token stop = {}) {
    return transfers_->Push(1, 1, RoundKind::kOuter, *exact_, Coded(values), 2, stop);
  }
  // All of fragment 1, as it was seeded.
  std::vector<float> Pull() {
    const FragmentMap map = Map();
    PulledParameters pulled({.map = &map, .codec = exact_.get()});
    const absl::StatusOr<int64_t> version = transfers_->Pull(
        {.map = &map, .fragment = 1, .whole = true, .codec = exact_.get()}, pulled, {});
    EXPECT_TRUE(version.ok()) << version.status();
    if (!version.ok()) return {};
    EXPECT_EQ(*version, 0);
    return std::move(pulled).Release();
  }
  v1::PushHeader Header() const {
    v1::PushHeader header;
    header.set_job_id(id_);
    header.set_pool("site-a");
    header.set_incarnation("0123456789abcdef");
    header.set_fragment(1);
    header.set_version(1);
    header.set_kind(v1::OUTER);
    header.set_codec(v1::FP32);
    header.set_weight(1);
    return header;
  }
  static BulkCall Call() { return {.deadline = SteadyTime() + kCallTimeout}; }
  absl::StatusOr<HeldBlocks> Ask(const v1::PushHeader& header) const {
    return GetContribution(MakeChannel({.address = address()}), header, Call());
  }
  std::vector<BlockRange> Held() const {
    const absl::StatusOr<HeldBlocks> answer = Ask(Header());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->blocks : std::vector<BlockRange>{{0, 1}};
  }
  // Version 1 of fragment 1 is the seed minus these values.
  void ExpectCommitted(const std::vector<float>& values) {
    const auto commit = pool_->NextCommit();
    ASSERT_TRUE(commit.ok()) << commit.status();
    EXPECT_EQ(commit->version(), 1);
    std::vector<float> expected = Values(1);
    for (int64_t i = 0; i < kLarge; ++i) expected[i] -= values[i];
    const auto pulled = pool_->Pull(1, -1, true, kLarge);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(pulled->values, expected);
  }
  // Payload bytes of the streams that have ended.
  int64_t BytesUp() { return Get("resumed")->wire_bytes().up_payload(); }

  std::string id_;
  std::optional<HandPool> pool_;
  std::unique_ptr<Codec> exact_;
  std::optional<CuttingProxy> proxy_;
  // Ends before the proxy.
  std::optional<Transfers> transfers_;
};

// Each connection carries two and a half chunks. A push that began again each time would never end.
TEST_F(ResumeTest, RepeatedCutsOfAPushMakeProgress) {
  const std::vector<float> values = Values(5);
  Proxy(Direction::kUp, 5 * kChunk / 2, 1000);
  const absl::Status pushed = Push(values);
  ASSERT_TRUE(pushed.ok()) << pushed;
  EXPECT_GE(proxy_->cuts(), 2);
  ExpectCommitted(values);
}

// Each connection breaks before a chunk of 1 MiB has passed. With such chunks nothing would ever
// arrive.
TEST_F(ResumeTest, APathThatCarriesNoWholeChunkIsPushedOverInSmallerOnes) {
  const std::vector<float> values = Values(5);
  Proxy(Direction::kUp, 400 << 10, 1000, absl::Milliseconds(30));
  const absl::Status pushed = Push(values);
  ASSERT_TRUE(pushed.ok()) << pushed;
  ExpectCommitted(values);
}

TEST_F(ResumeTest, OnlyTheRestOfAPushCrossesAgain) {
  const std::vector<float> values = Values(5);
  const int64_t before = BytesUp();
  // Five and a half chunks.
  Proxy(Direction::kUp, 11 * kChunk / 2, 1);
  ASSERT_TRUE(Push(values).ok());
  EXPECT_EQ(proxy_->cuts(), 1);
  ExpectCommitted(values);
  // The cut stream is counted, too.
  while (BytesUp() - before < kBytes) std::this_thread::yield();
  // Two chunks may have been on their way into the log when the coordinator was asked.
  EXPECT_LE(BytesUp() - before, kBytes + 2 * kChunk);
}

TEST_F(ResumeTest, WhatArrivedStaysOverARestart) {
  const std::vector<float> values = Values(5);
  const CodedSource source = Source(values);
  Proxy(Direction::kUp, 7 * kChunk / 2, 1000);
  const auto through = MakeChannel({.address = proxy_->address(), .kind = ChannelKind::kBulk});
  // A cut may lose bytes that the connection had brought but nobody had read yet.
  do {
    EXPECT_FALSE(PushBlocks({&through, 1}, Header(), source, Call()).ok());
  } while (Held().empty());
  Restart();
  pool_->Dial(address());
  ASSERT_TRUE(pool_->Join().ok());
  const auto plan = pool_->OpenPlan(id_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->fragments(1).contributed());
  const std::vector<BlockRange> here = Held();
  ASSERT_FALSE(here.empty()) << "what was logged is there";
  const CodedSource rest = Missing(source, here);
  EXPECT_EQ(rest.payload_bytes(), kBytes - 4 * ElementsOf(here, kLarge));
  const auto direct = MakeChannel({.address = address(), .kind = ChannelKind::kBulk});
  const auto pushed = PushBlocks({&direct, 1}, Header(), rest, Call());
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->contribution_complete());
  ExpectCommitted(values);
}

TEST_F(ResumeTest, OfWhatIsSentAgainTheRestIsTaken) {
  const std::vector<float> values = Values(5);
  const CodedSource source = Source(values);
  const auto channel = MakeChannel({.address = address(), .kind = ChannelKind::kBulk});
  const CodedSource part = Missing(source, {{0, 3000}, {5000, 3000}});
  ASSERT_TRUE(PushBlocks({&channel, 1}, Header(), part, Call()).ok());
  EXPECT_EQ(Held(), BlocksOf(part.segments));
  const auto pushed = PushBlocks({&channel, 1}, Header(), source, Call());
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->contribution_complete());
  ExpectCommitted(values);
}

TEST_F(ResumeTest, AStoppedPushIsTakenUpByTheNextOne) {
  const std::vector<float> values = Values(5);
  Proxy(Direction::kUp, 11 * kChunk / 2, 1);
  std::stop_source stop;
  std::jthread stopper([&] {
    while (proxy_->cuts() == 0) std::this_thread::yield();
    stop.request_stop();
  });
  const int64_t before = BytesUp();
  const absl::Status first = Push(values, stop.get_token());
  stopper.join();
  // Otherwise the retry was faster than the stop.
  if (!first.ok()) {
    ASSERT_TRUE(absl::IsCancelled(first)) << first;
    ASSERT_TRUE(Push(values).ok());
  }
  ExpectCommitted(values);
  // The proxy's cut and the stop each lose the chunks in flight. A push from the beginning would
  // send more.
  EXPECT_LE(BytesUp() - before, kBytes + 4 * kChunk);
}

TEST_F(ResumeTest, RepeatedCutsOfAPullMakeProgress) {
  Proxy(Direction::kDown, 5 * kChunk / 2, 1000);
  EXPECT_EQ(Pull(), Values(1));
  EXPECT_GE(proxy_->cuts(), 2);
}

TEST_F(ResumeTest, APathThatCarriesNoWholeChunkIsPulledOverInSmallerOnes) {
  Proxy(Direction::kDown, 400 << 10, 1000);
  EXPECT_EQ(Pull(), Values(1));
}

TEST_F(ResumeTest, TellsWhatIsHereOfAContributionAndRefusesAsAPushWould) {
  EXPECT_TRUE(Held().empty());
  v1::PushHeader header = Header();
  header.set_version(7);
  EXPECT_EQ(ReasonOf(Ask(header).status()), "VERSION_MISMATCH");
  header = Header();
  header.set_fragment(9);
  EXPECT_EQ(ReasonOf(Ask(header).status()), "FRAGMENT_UNKNOWN");
  header = Header();
  header.set_job_id("no-such-job");
  EXPECT_EQ(ReasonOf(Ask(header).status()), "JOB_UNKNOWN");
  header = Header();
  header.set_incarnation("ffffffffffffffff");
  EXPECT_EQ(ReasonOf(Ask(header).status()), "POOL_LOST");
  header = Header();
  header.set_kind(v1::SKIPPED);
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(header).status()));
}

// A payload of topk2 can be cut only between its chunks of 32 blocks. Streams of one contribution
// carry the same values, so they begin and end with the same segments, or at a chunk of one.
class SparseResumeTest : public ExchangeFixture {
 protected:
  static constexpr int64_t kTiles = 3, kSparse = kTiles * kTileElements - 1000;

  void SetUp() override {
    ExchangeFixture::SetUp();
    v1::JobSpec spec = Spec("sparse", 1);
    spec.mutable_model()->mutable_synthetic()->set_elements(kSparse);
    spec.mutable_sync()->mutable_up()->set_codec(v1::TOPK2);
    const auto submitted = Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    pool_.emplace(address(), "site-a");
    ASSERT_TRUE(pool_->Join().ok());
    ASSERT_TRUE(pool_->OpenPlan(submitted->job().id()).ok());
    // It is asked to seed.
    ASSERT_TRUE(pool_->NextEvent().ok());
    for (int f = 0; f < kFragments; ++f) {
      ASSERT_TRUE(pool_->Push(f, 0, v1::SEED, CodecKind::kFp32, std::vector<float>(kSparse)).ok());
      ASSERT_TRUE(pool_->NextCommit().ok());
    }
    std::vector<float> delta(kSparse);
    for (int64_t i = 0; i < kSparse; ++i) delta[i] = static_cast<float>((i * 31) % 1009 - 500);
    outgoing_ = pool_->Encode(1, 1, v1::OUTER, CodecKind::kTopk2, delta);
    source_ = SourceOf(outgoing_.blocks,
                       [this](int32_t elements) { return codec_->PayloadBytes(elements); });
    ASSERT_EQ(source_.segments.size(), kTiles);
  }

  absl::StatusOr<v1::PushResponse> Push(const CodedSource& source) const {
    const auto channel = MakeChannel({.address = address(), .kind = ChannelKind::kBulk});
    return PushBlocks({&channel, 1}, outgoing_.header, source, Call());
  }
  std::vector<BlockRange> Held() const {
    return GetContribution(MakeChannel({.address = address()}), outgoing_.header, Call())->blocks;
  }
  // The first chunks of a segment, as a separate segment.
  CodedSource FirstChunks(size_t segment, int32_t chunks) const {
    constexpr int32_t kChunkElements = 4096;
    const int32_t elements = chunks * kChunkElements;
    return {.segments = {{source_.segments[segment].first_block, elements, 0}},
            .payloads = {source_.payloads[segment].first(codec_->PayloadBytes(elements))},
            .owner = source_.owner};
  }
  static BulkCall Call() { return {.deadline = SteadyTime() + kCallTimeout}; }
  // The new version is what was coded, once, with the opposite sign, since the seed was zero.
  void ExpectCommitted() {
    ASSERT_TRUE(pool_->NextCommit().ok());
    std::vector<float> expected(kSparse);
    for (int64_t i = 0; i < kTiles; ++i) {
      const SegmentRef& segment = source_.segments[i];
      ASSERT_TRUE(
          codec_
              ->Decode({segment.elements, segment.base_exponent, source_.payloads[i]},
                       absl::MakeSpan(expected).subspan(i * kTileElements, segment.elements))
              .ok());
    }
    for (float& value : expected) value = 0 - value;
    const auto pulled = pool_->Pull(1, -1, true, kSparse);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(pulled->values, expected);
  }

  std::optional<HandPool> pool_;
  const std::unique_ptr<Codec> codec_ = *MakeCodec({.kind = CodecKind::kTopk2});
  HandPool::Outgoing outgoing_;
  CodedSource source_;
};

TEST_F(SparseResumeTest, OfWhatIsSentAgainTheRestIsTaken) {
  ASSERT_TRUE(Push(Missing(source_, {{0, 512}, {1024, 512}})).ok());
  EXPECT_EQ(Held(), (std::vector<BlockRange>{{512, 512}}));
  const auto pushed = Push(source_);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->contribution_complete());
  ExpectCommitted();
}

TEST_F(SparseResumeTest, ASegmentGoesOnBehindTheChunksThatAreHere) {
  ASSERT_TRUE(Push(FirstChunks(1, 3)).ok());
  EXPECT_EQ(Held(), (std::vector<BlockRange>{{512, 96}}));
  const auto pushed = Push(Missing(source_, Held()));
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->contribution_complete());
  ExpectCommitted();
}

class TwoPoolResumeTest : public ExchangeFixture {};

TEST_F(TwoPoolResumeTest, AWholeContributionIsCompleteWhileTheRoundWaits) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("two"), members);
  if (HasFatalFailure()) return;
  const std::vector<float> delta(kElements, 0.5f);
  const auto outgoing = members[0]->pool.Encode(1, 1, v1::OUTER, CodecKind::kFp32, delta);
  ASSERT_TRUE(members[0]->pool.Send(outgoing, CodecKind::kFp32).ok());
  const auto held = GetContribution(MakeChannel({.address = address()}), outgoing.header,
                                    {.deadline = SteadyTime() + kCallTimeout});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(held->complete);
  EXPECT_EQ(held->blocks, (std::vector<BlockRange>{{0, 3}}));
}

}  // namespace
}  // namespace longhaul
