// Jobs from submit to their end, over real gRPC.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/integration/coordinator/exchange_fixture.h"

namespace longhaul {
namespace {

class JobFlowTest : public ExchangeFixture {};

TEST_F(JobFlowTest, TwoPoolsTrainFromSeedToCompletion) {
  const auto submitted = Submit(Spec("flow"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_TRUE(submitted->created());
  EXPECT_EQ(submitted->job().state(), v1::PENDING);
  EXPECT_NE(submitted->job().waiting_for(), "");
  Members members = MakeMembers({"site-a", "site-b"});
  Begin(submitted->job().id(), members);
  if (HasFatalFailure()) return;
  Rounds(members);
  Finish(members, 2.5);
  for (auto& member : members) {
    const auto event = member->pool.NextEvent();
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(event->ended().reason(), "COMPLETED");
    EXPECT_TRUE(absl::IsOutOfRange(member->pool.NextEvent().status()));
  }
  const auto job = Await("flow", v1::COMPLETED);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), submitted->job().id());
  EXPECT_EQ(job->spec().name(), "flow");
  EXPECT_EQ(job->parameters(), 2 * kElements);
  ASSERT_EQ(job->fragments_size(), kFragments);
  EXPECT_EQ(job->fragments(0).rounds_committed(), 2);
  EXPECT_EQ(job->fragments(1).rounds_committed(), 3);
  for (int f = 0; f < kFragments; ++f)
    EXPECT_EQ(job->fragments(f).digest(), Hex(members[1]->outer[f]));
  EXPECT_DOUBLE_EQ(job->eval_loss().last(), 2.5);
  EXPECT_EQ(job->tokens(), 1000);
  EXPECT_DOUBLE_EQ(job->utilization(), 0.75);
  // Two seeds are pushed. Each of five rounds and two pools has one uplink and one downlink. Each
  // pool pulls two whole fragments.
  const int64_t fragment_bytes = kElements * 4;
  EXPECT_EQ(job->wire_bytes().up_payload(), (2 + 2 * 5) * fragment_bytes);
  EXPECT_GT(job->wire_bytes().up_total(), job->wire_bytes().up_payload());
  EXPECT_EQ(job->data_parallel_bytes(), 4 * 2 * kElements * 4);
  EXPECT_TRUE(job->has_ended_at());
}

TEST_F(JobFlowTest, TheFinalCheckpointIsListed) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("kept"), members);
  if (HasFatalFailure()) return;
  Rounds(members);
  Finish(members, 2.5);
  ASSERT_TRUE(Await("kept", v1::COMPLETED).ok());
  v1::ListCheckpointsRequest request;
  request.set_job("kept");
  v1::ListCheckpointsResponse response;
  ASSERT_TRUE(jobs_->ListCheckpoints(Context().get(), request, &response).ok());
  ASSERT_EQ(response.checkpoints_size(), 1);
  EXPECT_TRUE(response.checkpoints(0).final());
  EXPECT_EQ(response.checkpoints(0).job_name(), "kept");
  EXPECT_EQ(Hex(response.checkpoints(0).fragments(0).digest()), Hex(members[0]->outer[0]));
}

TEST_F(JobFlowTest, ARestartInTheMiddleKeepsVersionsDigestsAndPlaces) {
  const auto submitted = Submit(Spec("restarted"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  const std::string id = submitted->job().id();
  Members members = MakeMembers({"site-a", "site-b"});
  Begin(id, members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  Round(members, 0, 1, v1::OUTER);
  // A contribution without its commit stays in the log, and counts after the restart.
  ASSERT_TRUE(members[0]->pool.Push(1, 2, v1::OUTER, CodecKind::kFp32, Ramp(7)).ok());
  const auto before = Get("restarted");
  ASSERT_TRUE(before.ok());
  Restart();
  const auto after = AwaitOpen("restarted");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->state(), v1::RUNNING);
  for (int f = 0; f < kFragments; ++f) {
    EXPECT_EQ(after->fragments(f).digest(), before->fragments(f).digest());
    EXPECT_EQ(after->fragments(f).rounds_committed(), 1);
  }
  EXPECT_EQ(after->wire_bytes().down_payload(), before->wire_bytes().down_payload());
  for (size_t i = 0; i < members.size(); ++i) {
    HandPool& pool = members[i]->pool;
    pool.Dial(address());
    EXPECT_TRUE(absl::IsNotFound(pool.Heartbeat().status()));
    const auto joined = pool.Join();
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_EQ(joined->assignment().job_id(), id);
    EXPECT_EQ(joined->assignment().ordinal(), static_cast<int>(i));
    const auto plan = pool.OpenPlan(id);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_FALSE(plan->seed());
    for (int f = 0; f < kFragments; ++f) {
      EXPECT_EQ(plan->fragments(f).version(), 1);
      EXPECT_EQ(plan->fragments(f).contributed(), i == 0 && f == 1);
      EXPECT_EQ(Hex(plan->fragments(f).digest()), Hex(members[i]->outer[f]));
    }
  }
  Rounds(members, 1);
  Finish(members, 2.5);
  ASSERT_TRUE(Await("restarted", v1::COMPLETED).ok());
  Restart();
  const auto ended = Get("restarted");
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->state(), v1::COMPLETED);
  EXPECT_EQ(ended->fragments(0).digest(), Hex(members[0]->outer[0]));
  EXPECT_EQ(ended->tokens(), 1000);
}

TEST_F(JobFlowTest, QuantizedBothWaysTheDigestsStillAgree) {
  v1::JobSpec spec = Spec("quantized");
  spec.mutable_sync()->mutable_up()->set_codec(v1::E3M0);
  spec.mutable_sync()->mutable_down()->set_codec(v1::E3M0);
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(spec, members);
  if (HasFatalFailure()) return;
  Rounds(members, 0, CodecKind::kE3m0);
  Finish(members, 2.5);
  EXPECT_TRUE(Await("quantized", v1::COMPLETED).ok());
}

TEST_F(JobFlowTest, AnEvaluationOfAStepThatIsNotTheJobsIsRefused) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("steps"), members);
  if (HasFatalFailure()) return;
  for (const int64_t step : {int64_t{-1}, Spec("steps").train().steps() + 1}) {
    v1::HeartbeatRequest report;
    report.add_evaluations()->set_step(step);
    const absl::Status refused = members[0]->pool.Heartbeat(report).status();
    ASSERT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(FieldViolationsOf(refused)[0].field, "evaluations");
  }
}

// However often a pool reports, what is kept grows only with the versions that are committed.
TEST_F(JobFlowTest, AVersionIsEvaluatedOnceAndNotBeforeItIsCommitted) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("often"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  int64_t step = 0;
  const auto evaluated = [&](int64_t version, bool of_pool, bool final = false) {
    v1::HeartbeatRequest report;
    v1::Evaluation* const evaluation = report.add_evaluations();
    evaluation->set_version(version);
    evaluation->set_step(++step % 4);
    evaluation->set_loss(2.5);
    evaluation->set_of_pool(of_pool);
    evaluation->set_final(final);
    v1::Metric* const metric = evaluation->add_metrics();
    metric->set_name(absl::StrCat("name_", step));
    report.mutable_progress()->set_inner_step(2);
    return members[0]->pool.Heartbeat(report).status();
  };
  for (const bool of_pool : {false, true}) {
    const absl::Status early = evaluated(1, of_pool);
    ASSERT_TRUE(absl::IsInvalidArgument(early)) << "fragment 0 has version 0: " << early;
    EXPECT_EQ(FieldViolationsOf(early)[0].field, "evaluations");
  }
  EXPECT_TRUE(absl::IsInvalidArgument(evaluated(3, false, /*final=*/true)));
  Round(members, 0, 1, v1::OUTER);
  for (int repeated = 0; repeated < 3; ++repeated) {
    for (const bool of_pool : {false, true})
      EXPECT_TRUE(evaluated(1, of_pool).ok()) << "a pool that got no answer repeats its report";
  }
  const auto job = Get("often");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->eval_loss().evaluations(), 1);
  ASSERT_EQ(job->pools_size(), 1);
  ASSERT_EQ(job->pools(0).evaluation_size(), 1);
  EXPECT_EQ(job->pools(0).evaluation(0).name(), "name_5");
}

// Fragment 0 has version 1 after step 3, and the final version after step 4.
TEST_F(JobFlowTest, AnEvaluationIsKeptAtTheStepOfItsVersionAndStays) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("kept"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  Round(members, 0, 1, v1::OUTER);
  const auto report = [&](int member, int64_t version, int64_t step, double loss) {
    v1::HeartbeatRequest report;
    v1::Evaluation* const evaluation = report.add_evaluations();
    evaluation->set_version(version);
    evaluation->set_step(step);
    evaluation->set_loss(loss);
    v1::Metric* const metric = evaluation->add_metrics();
    metric->set_name("loss");
    metric->set_value(loss);
    const auto answer = members[member]->pool.Heartbeat(report);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->evaluations_acknowledged(), step);
  };
  const auto expect_loss = [&](int evaluations, int64_t step, double loss) {
    const auto job = Get("kept");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->eval_loss().evaluations(), evaluations);
    EXPECT_EQ(job->eval_loss().last_step(), step);
    EXPECT_EQ(job->eval_loss().last(), loss);
    if (evaluations > 0) {
      EXPECT_EQ(job->eval_loss().metrics(0).value(), loss);
    }
  };
  report(1, 1, 3, 99);
  expect_loss(0, 0, 0);  // Site-a was asked to evaluate this version.
  report(0, 1, 1, 2.5);
  expect_loss(1, 3, 2.5);
  Round(members, 1, 2, v1::OUTER);
  Round(members, 0, 2, v1::FINAL);
  for (const int member : {0, 1}) report(member, 2, 3, 99);
  expect_loss(1, 3, 2.5);
  members.clear();
  Restart();
  ASSERT_TRUE(AwaitOpen("kept").ok());
  expect_loss(1, 3, 2.5);
}

TEST_F(JobFlowTest, CancelEndsTheStreamsAndStays) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("cancelled"), members);
  if (HasFatalFailure()) return;
  v1::CancelJobRequest request;
  request.set_job("cancelled");
  request.set_reason("wrong data");
  v1::CancelJobResponse response;
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), request, &response).ok());
  EXPECT_EQ(response.job().state(), v1::CANCELLED);
  for (auto& member : members) {
    const auto event = member->pool.NextEvent();
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(event->ended().reason(), "CANCELLED: wrong data");
    const auto heartbeat = member->pool.Heartbeat();
    ASSERT_TRUE(heartbeat.ok());
    EXPECT_EQ(heartbeat->assignment().job_id(), "");
  }
  const auto pushed = members[0]->pool.Push(1, 1, v1::OUTER, CodecKind::kFp32, Ramp(1));
  EXPECT_EQ(ReasonOf(pushed.status()), "JOB_ENDED");
  // Too late: the first reason stays.
  request.set_reason("another reason");
  EXPECT_TRUE(jobs_->CancelJob(Context().get(), request, &response).ok());
  Restart();
  const auto job = Get("cancelled");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state(), v1::CANCELLED);
  EXPECT_EQ(job->error().code(), "CANCELLED");
  EXPECT_EQ(job->error().message(), "wrong data");
}

TEST_F(JobFlowTest, TwoJobsDoNotTouchEachOther) {
  const auto first = Submit(Spec("first", 1));
  const auto second = Submit(Spec("second", 1));
  ASSERT_TRUE(first.ok() && second.ok());
  Members a = MakeMembers({"site-a"}), b = MakeMembers({"site-b"});
  Begin(first->job().id(), a);
  Begin(second->job().id(), b);
  if (HasFatalFailure()) return;
  Round(a, 1, 1, v1::OUTER);
  Rounds(b);
  Finish(b, 1.5);
  ASSERT_TRUE(Await("second", v1::COMPLETED).ok());
  const auto running = Get("first");
  ASSERT_TRUE(running.ok());
  EXPECT_EQ(running->state(), v1::RUNNING);
  EXPECT_EQ(running->fragments(1).rounds_committed(), 1);
  EXPECT_EQ(running->fragments(0).rounds_committed(), 0);
  EXPECT_EQ(running->eval_loss().evaluations(), 0);
}

v1::HeartbeatRequest NoSuchFile() {
  v1::HeartbeatRequest report;
  report.mutable_failure()->set_code("NOT_FOUND");
  report.mutable_failure()->set_message("no such file");
  report.mutable_failure()->set_field("data.text.path");
  report.mutable_failure()->set_fault_class(v1::SITE_FAULT);
  return report;
}

TEST_F(JobFlowTest, AFaultThatEveryPoolHasTwiceFailsTheJobWithItsReason) {
  Members members = MakeMembers({"site-a"});
  const auto submitted = Submit(Spec("faulty", 1));
  ASSERT_TRUE(submitted.ok());
  Begin(submitted->job().id(), members);
  if (HasFatalFailure()) return;
  const auto first = members[0]->pool.Heartbeat(NoSuchFile());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->assignment().job_id(), "");
  clock_.Advance(absl::Seconds(2));
  ASSERT_TRUE(members[0]->pool.Heartbeat().ok());
  const auto waits = Get("faulty");
  ASSERT_TRUE(waits.ok());
  EXPECT_EQ(waits->state(), v1::RUNNING);
  ASSERT_EQ(waits->set_aside_size(), 1);
  EXPECT_EQ(waits->set_aside(0).pool(), "site-a");
  EXPECT_EQ(waits->set_aside(0).error().message(), "no such file");
  EXPECT_EQ(waits->set_aside(0).error().fault_class(), v1::SITE_FAULT);
  EXPECT_NE(waits->waiting_for().find("site-a"), std::string::npos) << waits->waiting_for();
  clock_.Advance(absl::Seconds(6));
  ASSERT_TRUE(members[0]->pool.AwaitAssignment(submitted->job().id()).ok());
  // Ranks of this incarnation began the job.
  EXPECT_TRUE(absl::IsAborted(members[0]->pool.Heartbeat().status()));
  ASSERT_TRUE(members[0]->pool.JoinAnew("fedcba9876543210").ok());
  ASSERT_TRUE(members[0]->pool.Heartbeat(NoSuchFile()).ok());
  const auto job = Await("faulty", v1::FAILED);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->error().field(), "data.text.path");
  EXPECT_EQ(job->error().pool(), "site-a");
  EXPECT_EQ(job->error().message(), "no such file");
  EXPECT_EQ(job->error().fault_class(), v1::SITE_FAULT);
}

TEST_F(JobFlowTest, ALatePoolThatCannotDoTheJobLeavesItUntouched) {
  v1::JobSpec spec = Spec("healthy");
  spec.mutable_pools()->set_max(3);
  Members members = MakeMembers({"site-a", "site-b"});
  const auto submitted = Submit(spec);
  ASSERT_TRUE(submitted.ok());
  Begin(submitted->job().id(), members);
  if (HasFatalFailure()) return;
  HandPool late(address(), "site-c");
  ASSERT_TRUE(late.Join().ok());
  for (int failures = 1; failures <= 3; ++failures) {
    ASSERT_TRUE(late.AwaitAssignment(submitted->job().id()).ok());
    const auto told = late.Heartbeat(NoSuchFile());
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_EQ(told->assignment().job_id(), "");
    const auto job = Get("healthy");
    ASSERT_TRUE(job.ok());
    ASSERT_EQ(job->set_aside_size(), 1);
    EXPECT_EQ(job->set_aside(0).failures(), failures);
    for (int second = 0; second < 5 * (1 << (failures - 1)); ++second) {
      clock_.Advance(absl::Seconds(1));
      for (auto& member : members) ASSERT_TRUE(member->pool.Heartbeat().ok());
      ASSERT_TRUE(late.Heartbeat().ok());
    }
  }
  ASSERT_TRUE(late.Leave().ok());
  Rounds(members);
  Finish(members, 2.5);
  EXPECT_TRUE(Await("healthy", v1::COMPLETED).ok());
}

TEST_F(JobFlowTest, APoolThatDrainsCostsOthersNothingAndComesBackToItsPlace) {
  Members members = MakeMembers({"site-a", "site-b"});
  const auto submitted = Submit(Spec("drained"));
  ASSERT_TRUE(submitted.ok());
  const std::string id = submitted->job().id();
  Begin(id, members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  v1::HeartbeatRequest drain;
  drain.set_draining(true);
  drain.mutable_progress()->set_inner_step(1);
  ASSERT_TRUE(members[1]->pool.Heartbeat(drain).ok());
  // Rounds that are pushed later do not wait for this pool.
  ASSERT_TRUE(members[0]
                  ->pool.Push(0, 1, v1::OUTER, CodecKind::kFp32, std::vector<float>(kElements, 1))
                  .ok());
  const auto commit = members[0]->pool.NextCommit();
  ASSERT_TRUE(commit.ok()) << commit.status();
  EXPECT_EQ(commit->pools_size(), 1);
  Merge(*members[0], *commit);
  ASSERT_TRUE(members[1]->pool.Leave(absl::Minutes(10)).ok());
  HandPool back(address(), "site-b", "bbbbbbbbbbbbbbbb");
  const auto joined = back.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->assignment().job_id(), id);
  EXPECT_EQ(joined->assignment().ordinal(), 1);
}

TEST_F(JobFlowTest, AJobThatNeedsMorePoolsThanThereAreHoldsNone) {
  const auto three = Submit(Spec("three", 3));
  const auto two = Submit(Spec("two", 2));
  ASSERT_TRUE(three.ok() && two.ok());
  Members members = MakeMembers({"site-a", "site-b"});
  Begin(two->job().id(), members);
  if (HasFatalFailure()) return;
  const auto waits = Get("three");
  ASSERT_TRUE(waits.ok());
  EXPECT_NE(waits->waiting_for().find("busy with two"), std::string::npos) << waits->waiting_for();
  Rounds(members);
  Finish(members, 2.5);
  EXPECT_TRUE(Await("two", v1::COMPLETED).ok());
}

class QuorumFlowTest : public ExchangeFixture {
 protected:
  static v1::JobSpec QuorumSpec(const std::string& name, int grace_seconds) {
    v1::JobSpec spec = Spec(name);
    v1::SyncSpec& sync = *spec.mutable_sync();
    sync.set_mode(v1::QUORUM);
    sync.mutable_quorum()->set_pools(1);
    sync.mutable_quorum()->set_grace_seconds(grace_seconds);
    sync.mutable_outer()->set_lr(1);
    sync.mutable_outer()->set_momentum(0);
    return spec;
  }
  static absl::Status Push(HandMember& member, int fragment, int64_t version, double weight,
                           float delta) {
    HandPool::Outgoing outgoing = member.pool.Encode(fragment, version, v1::OUTER, CodecKind::kFp32,
                                                     std::vector<float>(kElements, delta));
    outgoing.header.set_weight(weight);
    return member.pool.Send(outgoing, CodecKind::kFp32).status();
  }
};

TEST_F(QuorumFlowTest, ACalledPoolContributesWhatItHasWithItsStepsAsWeight) {
  Members members = MakeMembers({"fast", "slow"});
  SubmitAndBegin(QuorumSpec("called", 3600), members);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Push(*members[0], 1, 1, 2, 3).ok());
  const auto event = members[1]->pool.NextEvent();
  ASSERT_TRUE(event.ok()) << event.status();
  ASSERT_TRUE(event->has_call()) << event->ShortDebugString();
  EXPECT_EQ(event->call().fragment(), 1);
  EXPECT_EQ(event->call().version(), 1);
  for (const double weight : {0.0, 0.5, 1.5, 3.0, -1.0})
    EXPECT_TRUE(absl::IsInvalidArgument(Push(*members[1], 1, 1, weight, 6))) << weight;
  ASSERT_TRUE(Push(*members[1], 1, 1, 1, 6).ok());
  const std::vector<float> before = members[1]->outer[1];
  const auto commit = members[1]->pool.NextCommit();
  ASSERT_TRUE(commit.ok()) << commit.status();
  Merge(*members[1], *commit);
  // (2 * 3 + 1 * 6) / 3
  for (int64_t i = 0; i < kElements; ++i)
    ASSERT_FLOAT_EQ(members[1]->outer[1][i], before[i] - 4) << i;
}

TEST_F(QuorumFlowTest, ARoundGoesOnWithoutALatePoolWhichKeepsItsPlace) {
  Members members = MakeMembers({"fast", "slow"});
  SubmitAndBegin(QuorumSpec("late", 5), members);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(Push(*members[0], 1, 1, 2, 3).ok());
  clock_.Advance(absl::Seconds(5));
  for (auto& member : members) {
    const auto commit = member->pool.NextCommit();
    ASSERT_TRUE(commit.ok()) << commit.status();
    ASSERT_EQ(commit->pools_size(), 1);
    Merge(*member, *commit);
  }
  const absl::Status late = Push(*members[1], 1, 1, 1, 6);
  EXPECT_EQ(ReasonOf(late), "VERSION_MISMATCH") << late;
  // The plan of a rank that comes back tells of a round that is called.
  ASSERT_TRUE(Push(*members[0], 0, 1, 2, 3).ok());
  const auto plan = members[1]->pool.OpenPlan(Get("late")->id());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->quorum());
  EXPECT_TRUE(plan->fragments(0).called());
  EXPECT_FALSE(plan->fragments(1).called());
  EXPECT_TRUE(Push(*members[1], 0, 1, 1, 6).ok());
  v1::HeartbeatRequest report;
  report.mutable_progress()->set_inner_step(2);
  ASSERT_TRUE(members[1]->pool.Heartbeat(report).ok());
  const auto job = Get("late");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->pools_size(), 1);
  EXPECT_EQ(job->pools(0).late_rounds(), 1);
  EXPECT_EQ(job->pools(0).late_rounds_in_a_row(), 0) << "it has contributed since";
}

// Jobs with guard.outer, of three pools. Fragment 1 has a round each 2 steps.
class OuterGuardFlowTest : public ExchangeFixture {
 protected:
  static v1::JobSpec GuardedSpec(const std::string& name, int pools) {
    v1::JobSpec spec = Spec(name, pools);
    spec.mutable_train()->set_steps(40);
    spec.mutable_guard()->set_outer(v1::LEAVE_OUT);
    spec.mutable_guard()->set_outer_rounds(2);
    return spec;
  }
  // Every member pushes a ramp, times its factor; all merge the commit of these pools.
  void RoundOf(Members& members, int64_t version, const std::vector<float>& factors,
               const std::vector<std::string>& counted) {
    std::vector<float> expected = members[0]->outer[1];
    for (size_t i = 0; i < members.size(); ++i) {
      std::vector<float> delta = Ramp(1 + static_cast<float>(i));
      for (float& value : delta) value *= factors[i];
      ASSERT_TRUE(members[i]->pool.Push(1, version, v1::OUTER, CodecKind::kFp32, delta).ok());
      if (std::find(counted.begin(), counted.end(), members[i]->name) == counted.end()) continue;
      for (size_t at = 0; at < delta.size(); ++at)
        expected[at] -= delta[at] / static_cast<float>(counted.size());
    }
    for (auto& member : members) {
      const auto commit = member->pool.NextCommit();
      ASSERT_TRUE(commit.ok()) << commit.status();
      EXPECT_EQ(std::vector<std::string>(commit->pools().begin(), commit->pools().end()), counted)
          << "version " << version;
      Merge(*member, *commit);
      for (size_t at = 0; at < expected.size(); ++at)
        ASSERT_NEAR(member->outer[1][at], expected[at], 1e-3 * (1 + std::abs(expected[at])));
    }
  }
  // The fields that the page and `get` show.
  std::pair<int64_t, int> LeftOut(const std::string& job, HandMember& member) {
    v1::HeartbeatRequest report;
    report.mutable_progress()->set_inner_step(2);
    EXPECT_TRUE(member.pool.Heartbeat(report).ok());
    const auto found = Get(job);
    EXPECT_TRUE(found.ok()) << found.status();
    for (const v1::PoolProgress& pool : found->pools())
      if (pool.pool() == member.name) return {pool.left_out_rounds(), pool.left_out_fragments()};
    return {-1, -1};
  }
  std::vector<std::string> Events(const std::string& job) {
    v1::ListEventsRequest request;
    request.set_job(job);
    v1::ListEventsResponse response;
    EXPECT_TRUE(jobs_->ListEvents(Context().get(), request, &response).ok());
    std::vector<std::string> events;
    for (const v1::JobEvent& event : response.events())
      if (event.kind() == v1::POOL_LEFT_OUT)
        events.push_back(event.pool() + ": " + event.message());
    return events;
  }
};

TEST_F(OuterGuardFlowTest, OneOfTwoThatIsAThousandTimesTooLargeDoesNotCount) {
  Members members = MakeMembers({"good", "wild"});
  SubmitAndBegin(GuardedSpec("scaled", 2), members);
  if (HasFatalFailure()) return;
  RoundOf(members, 1, {1, 1}, {"good", "wild"});
  RoundOf(members, 2, {1, 1}, {"good", "wild"});
  RoundOf(members, 3, {1, 1000}, {"good"});
  RoundOf(members, 4, {1, 1000}, {"good"});
  EXPECT_EQ(LeftOut("scaled", *members[1]), std::pair(int64_t{2}, 1));
  EXPECT_EQ(LeftOut("scaled", *members[0]), std::pair(int64_t{0}, 0));
  const std::vector<std::string> events = Events("scaled");
  ASSERT_EQ(events.size(), 1u) << "once in a row";
  EXPECT_THAT(events[0], testing::StartsWith("wild: fragment 1 version 3: its contribution is left "
                                             "out: its norm is "));
  // The pool goes on from the commit, and counts again.
  RoundOf(members, 5, {1, 1}, {"good", "wild"});
  EXPECT_EQ(LeftOut("scaled", *members[1]), std::pair(int64_t{2}, 0));
  // What is usual survives a restart of the coordinator: the next round is judged.
  RoundOf(members, 6, {1, 1000}, {"good"});
  Restart();
  ASSERT_TRUE(AwaitOpen("scaled").ok());
  for (auto& member : members) {
    member->pool.Dial(address());
    ASSERT_TRUE(member->pool.Join().ok());
    ASSERT_TRUE(member->pool.OpenPlan(Get("scaled")->id()).ok());
  }
  RoundOf(members, 7, {1, 1000}, {"good"});
}

TEST_F(OuterGuardFlowTest, OneOfThreeThatPointsTheOtherWayDoesNotCount) {
  Members members = MakeMembers({"a", "b", "c"});
  SubmitAndBegin(GuardedSpec("opposed", 3), members);
  if (HasFatalFailure()) return;
  RoundOf(members, 1, {1, 1, 1}, {"a", "b", "c"});
  RoundOf(members, 2, {1, 1, 1}, {"a", "b", "c"});
  RoundOf(members, 3, {1, -1, 1}, {"a", "c"});
  RoundOf(members, 4, {1, 1, 2000}, {"a", "b"});
  RoundOf(members, 5, {1, 1, 1}, {"a", "b", "c"});
  const std::vector<std::string> events = Events("opposed");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[0], testing::HasSubstr("its mean cosine with the others is -"));
}

TEST_F(OuterGuardFlowTest, WithoutItEverythingCounts) {
  Members members = MakeMembers({"good", "wild"});
  v1::JobSpec spec = GuardedSpec("off", 2);
  spec.clear_guard();
  SubmitAndBegin(spec, members);
  if (HasFatalFailure()) return;
  for (int64_t version = 1; version <= 3; ++version)
    RoundOf(members, version, {1, version < 3 ? 1.0f : 1000.0f}, {"good", "wild"});
  EXPECT_THAT(Events("off"), testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul
