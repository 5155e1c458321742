// Calls of pools, in any order and of any content, and a job that they may work on. The works of
// the job succeed.
//   input: for each call: u8 kind (below) | string message; or kTick | u8 seconds
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/names.h"
#include "common/schedule/schedule.h"
#include "common/wire/proto_values.h"
#include "coordinator/core/coordinator.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/pool_messages.h"
#include "grpcpp/server_context.h"
#include "longhaul/v1/sync.pb.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace longhaul::fuzz::pool_calls_fuzz {
namespace {

enum Kind { kTick, kJoin, kHeartbeat, kLeave, kWatchPlan, kPush, kKinds };

constexpr char kJob[] = "job-1", kPool[] = "oslo", kIncarnation[] = "0123456789abcdef";
constexpr int kFragments = 2, kCallsMax = 64;
constexpr int64_t kSteps = 8;

class Coordinating {
 public:
  Coordinating() {
    JobOptions options;
    options.name = "tiny";
    options.steps = kSteps;
    options.schedule = MakeSchedule({.fragments = kFragments, .h = 2, .tau = 1, .steps = kSteps});
    Step(coordinator::SubmitJob{kJob, options});
  }

  void Call(int kind, FuzzInput& input) {
    if (kind == kTick) {
      now_ += absl::Seconds(input.Byte());
      return Step(coordinator::Tick{});
    }
    const std::string bytes(input.String());
    v1::PushMessage push;
    v1::JoinRequest join;
    v1::HeartbeatRequest heartbeat;
    v1::LeaveRequest leave;
    v1::WatchPlanRequest watch;
    if (kind == kJoin && join.ParseFromString(bytes)) {
      if (Passes(coordinator::CheckJoin(caller_, join))) Step(coordinator::CommandOf(join));
    } else if (kind == kHeartbeat && heartbeat.ParseFromString(bytes)) {
      if (Passes(coordinator::CheckHeartbeat(caller_, heartbeat)) &&
          Passes(coordinator::CheckEvaluations(heartbeat, kSteps)))
        Step(coordinator::CommandOf(heartbeat));
    } else if (kind == kLeave && leave.ParseFromString(bytes)) {
      Step(coordinator::CommandOf(leave));
    } else if (kind == kWatchPlan && watch.ParseFromString(bytes)) {
      Step(coordinator::RankReady{watch.job_id(), watch.pool(), watch.incarnation(), watch.rank()});
    } else if (kind == kPush && push.ParseFromString(bytes)) {
      const v1::PushHeader& header = push.header();
      const std::optional<RoundKind> round = RoundKindFromProto(header.kind());
      if (!round.has_value()) return;
      const coordinator::ContributionId whole{header.job_id(),
                                              header.pool(),
                                              header.incarnation(),
                                              {header.fragment(), header.version(), *round}};
      // As the intake does: a contribution that is refused does not become whole.
      if (!core_.Judge(whole).has_value()) Step(coordinator::ContributionComplete{whole});
    }
    (void)core_.job(kJob);
    for (const coordinator::PoolView& pool : core_.pools()) {
      LH_CHECK(IsName(pool.pool), "only names that pass the check");
      (void)core_.place(kJob, pool.pool);
    }
  }

 private:
  static bool Passes(const absl::Status& status) {
    CheckDocumented(status, {absl::StatusCode::kInvalidArgument});
    return status.ok();
  }

  // One step, and the steps that its works end in.
  void Step(coordinator::Event event) {
    std::deque<coordinator::Event> events = {std::move(event)};
    for (; !events.empty(); events.pop_front()) {
      for (const coordinator::Work& work : core_.Step(events.front(), now_).works)
        events.push_back(std::visit([this](const auto& w) { return Done(w); }, work));
    }
  }
  coordinator::Event Done(const coordinator::OpenStore& work) const {
    return coordinator::StoreOpened{work.job,
                                    std::vector<coordinator::RecoveredFragment>(kFragments)};
  }
  coordinator::Event Done(const coordinator::MeasureRound& work) const {
    return coordinator::RoundMeasured{work.job, work.round,
                                      std::vector<OuterMeasure>(work.contributors.size())};
  }
  coordinator::Event Done(const coordinator::ApplyRound& work) const {
    return coordinator::RoundApplied{work.job, work.round};
  }
  coordinator::Event Done(const coordinator::WriteCheckpoint& work) const {
    return coordinator::CheckpointWritten{work.job, work.final, work.cycle};
  }
  coordinator::Event Done(const coordinator::CloseStore& work) const {
    return coordinator::StoreClosed{work.job};
  }
  coordinator::Event Done(const coordinator::RemoveLog& work) const {
    return coordinator::LogRemoved{work.job};
  }
  coordinator::Event Done(const coordinator::RemoveFiles& work) const {
    return coordinator::FilesRemoved{work.job};
  }

  const grpc::CallbackServerContext context_;
  const coordinator::PoolCaller caller_{context_, /*certificates=*/false};
  absl::Time now_ = absl::FromUnixSeconds(1700000000);
  coordinator::Coordinator core_{{}, {}, now_};
};

template <typename Message>
Message Of() {
  Message message;
  message.set_pool(kPool);
  message.set_incarnation(kIncarnation);
  return message;
}

void Add(FuzzWriter& calls, Kind kind, const google::protobuf::MessageLite& message) {
  calls.Byte(kind).String(message.SerializeAsString());
}

v1::PushMessage Push(v1::RoundKind kind, int fragment, int64_t version) {
  v1::PushMessage push;
  *push.mutable_header() = Of<v1::PushHeader>();
  push.mutable_header()->set_job_id(kJob);
  push.mutable_header()->set_kind(kind);
  push.mutable_header()->set_fragment(fragment);
  push.mutable_header()->set_version(version);
  return push;
}

}  // namespace

std::vector<Seed> Seeds() {
  v1::JoinRequest join = Of<v1::JoinRequest>();
  join.set_ranks(1);
  v1::WatchPlanRequest watch = Of<v1::WatchPlanRequest>();
  watch.set_job_id(kJob);
  watch.set_ranks(1);
  v1::HeartbeatRequest heartbeat = Of<v1::HeartbeatRequest>(), draining = heartbeat;
  heartbeat.set_job_id(kJob);
  heartbeat.mutable_progress()->set_inner_step(3);
  heartbeat.add_evaluations()->set_step(2);
  draining.set_draining(true);
  FuzzWriter trains, nodes;
  Add(trains, kJoin, join);
  trains.Byte(kTick).Byte(1);
  Add(trains, kWatchPlan, watch);
  for (int fragment = 0; fragment < kFragments; ++fragment)
    Add(trains, kPush, Push(v1::SEED, fragment, 0));
  Add(trains, kPush, Push(v1::OUTER, 0, 1));
  Add(trains, kHeartbeat, heartbeat);
  Add(trains, kHeartbeat, draining);
  Add(trains, kLeave, Of<v1::LeaveRequest>());
  join.set_nodes(2);
  join.set_address("10.0.0.1");
  join.set_rendezvous_port(7000);
  join.set_rendezvous_token(kIncarnation);
  Add(nodes, kJoin, join);
  join.set_incarnation("fedcba9876543210");
  join.set_node(1);
  Add(nodes, kJoin, join);
  nodes.Byte(kTick).Byte(30);
  return {{"trains", trains.Take()}, {"nodes", nodes.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Coordinating coordinating;
  for (int calls = 0; !input.empty() && calls < kCallsMax; ++calls)
    coordinating.Call(input.Byte() % kKinds, input);
  return 0;
}

}  // namespace longhaul::fuzz::pool_calls_fuzz
