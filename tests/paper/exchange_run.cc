#include "tests/paper/exchange_run.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/cuda/device_codec.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/server/server.h"
#include "longhaul/v1/job.grpc.pb.h"
#include "tests/testing/emulated_cuda_runtime.h"
#include "tests/testing/synthetic_rank.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/thread_communicator.h"
#include "worker/agent/membership_client.h"
#include "worker/rank/capabilities.h"
#include "worker/replica/synthetic_replica.h"
#include "worker/session/rank_session.h"

namespace longhaul {
namespace {

v1::JobSpec MakeSpec(const ExchangeOptions& options) {
  v1::JobSpec spec;
  spec.set_name("exchange");
  v1::SyntheticModelSpec* model = spec.mutable_model()->mutable_synthetic();
  model->set_units(options.fragments);
  model->set_elements(options.elements);
  model->set_initial(options.initial);
  for (double delta : options.inner_delta) model->add_inner_delta(delta);
  spec.mutable_train()->set_steps(options.steps);
  v1::SyncSpec* sync = spec.mutable_sync();
  sync->set_h(options.h);
  sync->set_tau(options.tau);
  sync->set_alpha(options.alpha);
  sync->mutable_outer()->set_lr(options.outer_lr);
  sync->mutable_outer()->set_momentum(options.outer_momentum);
  sync->mutable_up()->set_codec(options.codec);
  sync->mutable_up()->set_error_feedback(options.error_feedback);
  if (options.error_feedback) sync->mutable_up()->set_feedback_decay(options.feedback_decay);
  sync->mutable_down()->set_codec(options.codec == v1::TOPK2 ? v1::E3M0 : options.codec);
  sync->mutable_down()->set_feedback_decay(options.feedback_decay);
  sync->mutable_up()->set_stochastic_rounding(options.stochastic_rounding);
  sync->mutable_down()->set_stochastic_rounding(options.stochastic_rounding);
  sync->set_final_round(options.final_round);
  spec.mutable_pools()->set_min(options.pools);
  spec.mutable_pools()->set_max(options.pools);
  spec.mutable_evaluation()->set_every_cycles(-1);
  return spec;
}

// A replica whose parameters lie on a device: the emulated one's memory is the host's.
class OnDevice : public Replica {
 public:
  explicit OnDevice(Replica* replica) : replica_(replica) {
    for (const UnitLayout& unit : replica->layout().units) parameters_.emplace_back(unit.elements);
    Renew();
  }

  const ModelLayout& layout() const override { return replica_->layout(); }
  int rank() const override { return replica_->rank(); }
  int ranks() const override { return replica_->ranks(); }
  absl::StatusOr<StepStats> Step(int64_t step) override {
    auto stats = replica_->Step(step);
    Renew();
    return stats;
  }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override {
    return replica_->Read(unit, offset, out);
  }
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override {
    const absl::Status status = replica_->Write(unit, offset, in);
    Renew();
    return status;
  }
  const float* DeviceParameters(int unit, int64_t offset) const override {
    return parameters_[unit].data() + offset;
  }
  absl::Status Publish(absl::Span<const int> units) override { return replica_->Publish(units); }
  absl::StatusOr<EvalStats> Evaluate() override { return replica_->Evaluate(); }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    return replica_->AllGather(values);
  }

 private:
  void Renew() {
    for (size_t unit = 0; unit < parameters_.size(); ++unit) {
      LH_CHECK(replica_->Read(static_cast<int>(unit), 0, absl::MakeSpan(parameters_[unit])).ok(),
               "a synthetic replica is read");
    }
  }

  Replica* const replica_;
  std::vector<std::vector<float>> parameters_;
};

// One of two ranks. The first one owns everything, so a unit has at most one block.
class OfTwo : public SyntheticRank {
 public:
  OfTwo(SyntheticReplica* replica, Communicator* communicator, int64_t steps)
      : SyntheticRank(replica, communicator), steps_(steps) {
    for (const UnitLayout& unit : layout().units)
      LH_CHECK(unit.elements <= kBlockElements, "the second rank would own something");
  }

  absl::StatusOr<StepStats> Step(int64_t step) override {
    auto stats = SyntheticRank::Step(step);
    if (rank() == 1 && step == steps_) absl::SleepFor(absl::Milliseconds(300));
    return stats;
  }

 private:
  const int64_t steps_;
};

// One pool, in this process.
class Pool {
 public:
  Pool(const ExchangeOptions& options, const std::string& coordinator, int index)
      : options_(options), coordinator_(coordinator), name_(absl::StrCat("pool-", index)) {
    v1::JoinRequest join;
    join.set_pool(name_);
    join.set_ranks(options.idle_rank ? 2 : 1);
    for (const std::string& capability : CapabilitiesOn(v1::CPU)) join.add_capabilities(capability);
    membership_ = std::make_unique<MembershipClient>(
        MembershipClient::Options{.log = log_,
                                  .coordinator = coordinator,
                                  .join = join,
                                  .heartbeat = absl::Milliseconds(100)},
        [this](const MembershipClient::State& state) { OnState(state); });
  }
  ~Pool() {
    // Its thread assigns thread_.
    membership_.reset();
    if (thread_.joinable()) thread_.join();
  }

  // Blocks until this pool's part of the job has ended, and tells so.
  absl::Status Join(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithDeadline(absl::Condition(&ended_), deadline)) {
      return absl::DeadlineExceededError(absl::StrCat(name_, " did not finish in time"));
    }
    for (const v1::Evaluation& evaluation : evaluations_)
      membership_->AddEvaluation(subject_, evaluation);
    membership_->SetFinished(subject_);
    return status_;
  }

  int ordinal = -1;  // Valid after Join.
  std::vector<FragmentHistory> history;
  std::vector<float> final_live;
  bool said_merged = true;

 private:
  void OnState(const MembershipClient::State& state) {
    if (state.assignment.job_id().empty() || thread_.joinable()) return;
    thread_ = std::thread([this, state] {
      const absl::Status status = Train(state.incarnation, state.assignment);
      absl::MutexLock lock(&mutex_);
      subject_ = state.subject();
      status_ = status;
      ended_ = true;
    });
  }

  absl::Status Train(const std::string& incarnation, const v1::Assignment& assignment) {
    ordinal = assignment.ordinal();
    LH_ASSIGN_OR_RETURN(const auto replica, MakeReplica(assignment));
    if (options_.idle_rank) return TrainBothRanks(incarnation, assignment, *replica);
    OnDevice on_device(replica.get());
    return TrainRank(incarnation, assignment,
                     options_.on_device ? static_cast<Replica&>(on_device) : *replica);
  }

  absl::StatusOr<std::unique_ptr<SyntheticReplica>> MakeReplica(const v1::Assignment& of) const {
    const v1::SyntheticModelSpec& model = of.spec().model().synthetic();
    return SyntheticReplica::Create(
        {.units = model.units(),
         .elements = model.elements(),
         .initial = model.initial(),
         .inner_delta = model.inner_delta(std::min(ordinal, model.inner_delta_size() - 1))});
  }

  absl::Status TrainBothRanks(const std::string& incarnation, const v1::Assignment& assignment,
                              SyntheticReplica& first) {
    LH_ASSIGN_OR_RETURN(const auto second, MakeReplica(assignment));
    auto communicators = MakeThreadCommunicators(2);
    absl::Status status;
    std::thread idle([&] {
      OfTwo rank(second.get(), communicators[1].get(), options_.steps);
      session::RankSession session(SessionOf(incarnation, assignment), &rank);
      status = StatusOf(session.Run());
      if (!status.ok()) communicators[1]->Abort("ended");
    });
    OfTwo rank(&first, communicators[0].get(), options_.steps);
    const absl::Status of_first = TrainRank(incarnation, assignment, rank);
    if (!of_first.ok()) communicators[0]->Abort("ended");
    idle.join();
    return status.ok() ? of_first : status;
  }

  session::RankSession::Options SessionOf(const std::string& incarnation,
                                          const v1::Assignment& assignment) const {
    return {.coordinator = coordinator_,
            .job = assignment.job_id(),
            .pool = name_,
            .incarnation = incarnation,
            .noise_seed = assignment.spec().train().seed(),
            .log = log_};
  }

  absl::Status StatusOf(const session::Outcome& outcome) const {
    if (outcome.kind == session::Outcome::Kind::kFinished) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(name_, ": ", outcome.reason, ": ", outcome.status.ToString()));
  }

  absl::Status TrainRank(const std::string& incarnation, const v1::Assignment& assignment,
                         Replica& replica) {
    history.resize(options_.fragments);
    session::SessionObserver observer;
    observer.on_merge = [&](const session::MergeRecord& merge) {
      float live = 0;
      if (!replica.Read(merge.fragment, 0, absl::MakeSpan(&live, 1)).ok()) return;
      history[merge.fragment].live.push_back(live);
      history[merge.fragment].outer.push_back(merge.outer[0]);
    };
    bool merged = false;
    observer.on_progress = [&](const session::Progress& progress) { merged = progress.merged; };
    observer.on_evaluation = [&](const session::EvaluationResult& result) {
      said_merged = said_merged && merged == result.final;
      v1::Evaluation evaluation;
      evaluation.set_step(result.step);
      evaluation.set_version(result.version);
      evaluation.set_loss(result.loss);
      evaluation.set_tokens(result.tokens);
      evaluation.set_final(result.final);
      evaluations_.push_back(evaluation);
    };
    session::RankSession::Options options = SessionOf(incarnation, assignment);
    options.observer = observer;
    if (options_.on_device) {
      options.device_codec =
          std::make_shared<DeviceCodec>(std::make_shared<testing_support::EmulatedCudaRuntime>());
    }
    session::RankSession session(options, &replica);
    LH_RETURN_IF_ERROR(StatusOf(session.Run()));
    final_live.resize(options_.fragments);
    for (int i = 0; i < options_.fragments; ++i) {
      LH_RETURN_IF_ERROR(replica.Read(i, 0, absl::MakeSpan(&final_live[i], 1)));
    }
    return absl::OkStatus();
  }

  const ExchangeOptions options_;
  const std::string coordinator_, name_;
  const Logger log_ = Logger({.program = "exchange", .level = LogLevel::kError});
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  MembershipClient::Subject subject_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Evaluation> evaluations_;  // Of the training thread, until Join.
  std::thread thread_;
  std::unique_ptr<MembershipClient> membership_;
};

// The job once it has ended.
absl::StatusOr<v1::Job> AwaitEnd(v1::JobService::Stub& jobs, const std::string& id,
                                 absl::Time deadline) {
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(deadline));
    v1::GetJobRequest request;
    request.set_job(id);
    v1::GetJobResponse response;
    const grpc::Status status = jobs.GetJob(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    if (response.job().state() >= v1::COMPLETED) return response.job();
    if (absl::Now() > deadline) return absl::DeadlineExceededError("the job did not end in time");
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace

absl::StatusOr<ExchangeResult> RunExchange(const ExchangeOptions& options) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  const TempDir folder;
  LH_ASSIGN_OR_RETURN(const auto server,
                      coordinator::CoordinatorServer::Start(
                          {.http_listen = "",
                           .data_dir = folder.path(),
                           .log = {.program = "coordinator", .level = LogLevel::kError}}));
  const auto jobs = v1::JobService::NewStub(MakeChannel({.address = server->address()}));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  v1::SubmitJobRequest request;
  *request.mutable_spec() = MakeSpec(options);
  v1::SubmitJobResponse response;
  if (const grpc::Status status = jobs->SubmitJob(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  std::vector<std::unique_ptr<Pool>> pools;
  for (int i = 0; i < options.pools; ++i)
    pools.push_back(std::make_unique<Pool>(options, server->address(), i));
  for (const auto& pool : pools) LH_RETURN_IF_ERROR(pool->Join(deadline));
  ExchangeResult result;
  LH_ASSIGN_OR_RETURN(result.job, AwaitEnd(*jobs, response.job().id(), deadline));
  result.final_live.resize(options.pools);
  for (const auto& pool : pools) {
    result.final_live[pool->ordinal] = pool->final_live;
    result.said_merged &= pool->said_merged;
    if (pool->ordinal == 0) result.fragments = pool->history;
  }
  return result;
}

}  // namespace longhaul
