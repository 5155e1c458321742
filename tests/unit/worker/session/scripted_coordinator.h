// A coordinator of one pool and one fragment, over real gRPC, that does what a test says: it tells
// each rank what the test wants that rank to know, and may hold back what a rank pulls. A version
// is committed as soon as all ranks have pushed their blocks. All outer parameters of version v
// are v.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/io/digest.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "common/schedule/schedule.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul::session {

// Thread-safe.
class ScriptedCoordinator : public v1::SyncService::Service {
 public:
  static constexpr char kPool[] = "site-a";
  // Three blocks, the last one short. With two ranks, each owns some.
  static constexpr int64_t kElements = 300;
  struct Options {
    int64_t steps = 4, h = 4, tau = 1;
    bool quorum = true;
    // Ranks whose plan says that version 1 is called.
    std::set<int> called = {};
    // Rank and version: this rank gets this downlink not before a later version is committed, and
    // so never. Version 0: it gets the parameters that it begins with not before that.
    std::set<std::pair<int, int64_t>> held = {};
  };

  explicit ScriptedCoordinator(Options options) : options_(std::move(options)) {
    server_ = *Server::Start({.address = "127.0.0.1:0"}, {this});
  }
  ~ScriptedCoordinator() override {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    server_.reset();
  }
  const std::string& address() const { return server_->address(); }

  // Returns when this rank has been sent this version.
  void AwaitServed(int rank, int64_t version) {
    absl::MutexLock lock(&mutex_);
    const auto served = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return served_.contains({rank, version});
    };
    mutex_.Await(absl::Condition(&served));
  }
  // A later version was committed, without this pool. `rank` hears of it, the others do not. Those
  // who wait for an earlier version are told that it is not there any more.
  void CommitWithoutThePool(int64_t version, int rank) {
    absl::MutexLock lock(&mutex_);
    version_ = version;
    events_[rank].push_back(CommitOf(version, /*contributed=*/false));
  }
  // The weights of the contribution to this version, by rank.
  std::map<int, double> WeightsOf(int64_t version) {
    absl::MutexLock lock(&mutex_);
    return weights_[version];
  }

  grpc::Status WatchPlan(grpc::ServerContext*, const v1::WatchPlanRequest* request,
                         grpc::ServerWriter<v1::PlanEvent>* writer) override {
    absl::MutexLock lock(&mutex_);
    std::deque<v1::PlanEvent>& events = events_[request->rank()];
    ranks_ = request->ranks();
    writer->Write(PlanFor(request->rank()));
    for (;;) {
      const auto told = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !events.empty();
      };
      mutex_.Await(absl::Condition(&told));
      if (closing_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the test is over");
      writer->Write(events.front());
      events.pop_front();
    }
  }
  grpc::Status PushFragment(grpc::ServerContext*, grpc::ServerReader<v1::PushMessage>* reader,
                            v1::PushResponse*) override {
    v1::PushMessage message;
    v1::PushHeader header;
    while (reader->Read(&message)) {
      if (message.has_header()) header = message.header();
    }
    absl::MutexLock lock(&mutex_);
    std::map<int, double>& weights = weights_[header.version()];
    weights[RankOf(header.blocks())] = header.weight();
    if (static_cast<int>(weights.size()) < ranks_) return grpc::Status::OK;
    version_ = header.version();
    for (auto& [rank, events] : events_)
      events.push_back(CommitOf(header.version(), /*contributed=*/true));
    return grpc::Status::OK;
  }
  grpc::Status GetContribution(grpc::ServerContext*, const v1::GetContributionRequest*,
                               v1::GetContributionResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status PullFragment(grpc::ServerContext*, const v1::PullRequest* request,
                            grpc::ServerWriter<v1::PullMessage>* writer) override {
    int64_t version = request->version();
    {
      absl::MutexLock lock(&mutex_);
      const auto served = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const int64_t asked = request->whole() ? 0 : version;
        return closing_ || asked < version_ ||
               !options_.held.contains({RankOf(request->blocks()), asked});
      };
      mutex_.Await(absl::Condition(&served));
      if (closing_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the test is over");
      if (request->whole()) version = version_;
      if (version < version_) {
        return ToGrpcStatus(WithErrorInfo(absl::FailedPreconditionError("a later one is there"),
                                          {.reason = "VERSION_MISMATCH"}));
      }
    }
    Send(*request, version, *writer);
    absl::MutexLock lock(&mutex_);
    served_.insert({RankOf(request->blocks()), version});
    return grpc::Status::OK;
  }

 private:
  template <typename Blocks>
  static int RankOf(const Blocks& blocks) {
    return blocks.empty() || blocks[0].first() == 0 ? 0 : 1;
  }

  v1::RoundKind KindOf(int64_t version) const {
    if (version == 0) return v1::SEED;
    return version <= Schedule().rounds ? v1::OUTER : v1::FINAL;
  }
  FragmentSchedule Schedule() const {
    return MakeSchedule({.h = options_.h, .tau = options_.tau, .steps = options_.steps})[0];
  }
  void FillCommit(int64_t version, bool contributed, v1::Commit& commit) const {
    commit.set_version(version);
    commit.set_kind(KindOf(version));
    if (contributed) commit.add_pools(kPool);
  }
  v1::PlanEvent CommitOf(int64_t version, bool contributed) const {
    v1::PlanEvent event;
    FillCommit(version, contributed, *event.mutable_commit());
    return event;
  }
  v1::PlanEvent PlanFor(int rank) const {
    v1::PlanEvent event;
    v1::Plan& plan = *event.mutable_plan();
    plan.set_steps(options_.steps);
    plan.set_tau(options_.tau);
    plan.set_alpha(0.5);
    plan.set_final_round(true);
    plan.set_quorum(options_.quorum);
    for (v1::CodecSpec* codec : {plan.mutable_up(), plan.mutable_down()}) {
      codec->set_codec(v1::FP32);
      codec->set_feedback_decay(1);
    }
    v1::FragmentPlan& fragment = *plan.add_fragments();
    fragment.set_elements(kElements);
    fragment.set_first_push_step(Schedule().first_push_step);
    fragment.set_period(Schedule().period);
    fragment.set_rounds(Schedule().rounds);
    fragment.set_called(options_.called.contains(rank));
    fragment.add_units()->set_elements(kElements);
    FillCommit(0, /*contributed=*/false, *fragment.mutable_commit());
    return event;
  }

  // Downlinks add 1 to the version before.
  static void Send(const v1::PullRequest& request, int64_t version,
                   grpc::ServerWriter<v1::PullMessage>& writer) {
    const std::vector<BlockRange> blocks = BlocksFromProto(request.blocks());
    const int64_t elements = ElementsOf(blocks, kElements);
    const auto value = static_cast<float>(version);
    auto coded = std::make_shared<CodedBlocks>();
    coded->segments = CutSegments(blocks, kElements);
    const std::vector<float> sent(elements, request.whole() ? value : 1.0f);
    coded->payload = AlignedBuffer(BytesOf(sent).size());
    std::memcpy(coded->payload.data(), sent.data(), BytesOf(sent).size());
    const Digest128 digest = DigestOf(BytesOf(std::vector<float>(elements, value)));
    v1::PullMessage first;
    first.mutable_header()->set_version(version);
    first.mutable_header()->set_codec(v1::FP32);
    first.mutable_header()->set_payload_bytes(static_cast<int64_t>(coded->payload.size()));
    first.mutable_header()->mutable_digest()->set_high(digest.high);
    first.mutable_header()->mutable_digest()->set_low(digest.low);
    writer.Write(first);
    for (const std::string& chunk : ChunksOf(coded)) {
      v1::PullMessage message;
      message.ParseFromString(chunk);
      writer.Write(message);
    }
  }

  const Options options_;
  absl::Mutex mutex_;
  // What each rank is to be told.
  std::map<int, std::deque<v1::PlanEvent>> events_ ABSL_GUARDED_BY(mutex_);
  int ranks_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  // Rank and version.
  std::set<std::pair<int, int64_t>> served_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::map<int, double>> weights_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Server> server_;
};

}  // namespace longhaul::session
