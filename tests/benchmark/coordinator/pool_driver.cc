#include "tests/benchmark/coordinator/pool_driver.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "tests/benchmark/coordinator/figures.h"

namespace longhaul::benchmark {

PoolDriver::PoolDriver(const std::string& address, const std::string& name)
    : pool_(address, name) {}

void PoolDriver::Join() { OrEnd(pool_.Join().status(), "join"); }

void PoolDriver::Take(const std::string& job, const v1::JobSpec& spec) {
  job_ = job;
  resolved_ = OrEnd(ResolveJobSpec(spec), "the job's spec");
  codec_ = static_cast<CodecKind>(spec.sync().up().codec());
  OrEnd(pool_.AwaitAssignment(job), "a place in the job");
  const v1::Plan plan = OrEnd(pool_.OpenPlan(job), "the plan");
  versions_.clear();
  for (const v1::FragmentPlan& fragment : plan.fragments()) versions_.push_back(fragment.version());
}

void PoolDriver::Renew() { OrEnd(pool_.OpenPlan(job_).status(), "the plan again"); }

void PoolDriver::AwaitOpen() {
  while (!OrEnd(pool_.NextEvent(), "the request for the initial parameters").has_seed()) {
  }
}

void PoolDriver::AwaitCommit(int fragment, int64_t version) {
  const v1::Commit commit = OrEnd(pool_.NextCommit(), "a commit");
  if (commit.fragment() == fragment && commit.version() == version) return;
  std::cerr << absl::StrCat("commit of fragment ", commit.fragment(), " version ", commit.version(),
                            " came instead of ", fragment, ", ", version)
            << std::endl;
  std::_Exit(1);
}

void PoolDriver::Seed() {
  for (size_t f = 0; f < versions_.size(); ++f) {
    const std::vector<float> values(resolved_.fragments[f].elements, 0.25f);
    const int fragment = static_cast<int>(f);
    OrEnd(pool_.Push(fragment, 0, v1::SEED, CodecKind::kFp32, values).status(), "a seed");
    AwaitCommit(fragment, versions_[f] = 0);
  }
}

void PoolDriver::Round(int fragment) {
  const std::vector<float> values(resolved_.fragments[fragment].elements, 0.125f);
  const int64_t version = ++versions_[fragment];
  OrEnd(pool_.Push(fragment, version, v1::OUTER, codec_, values).status(), "a push");
  AwaitCommit(fragment, version);
}

void PoolDriver::Rounds() {
  const RoundPlan plan(resolved_.schedule, resolved_.spec.train().steps(),
                       resolved_.spec.sync().final_round());
  for (int f = 0; f < plan.fragments(); ++f) {
    while (versions_[f] < plan.LastVersion(f)) Round(f);
  }
}

void PoolDriver::Finish() {
  v1::HeartbeatRequest report;
  v1::Evaluation* evaluation = report.add_evaluations();
  evaluation->set_step(resolved_.spec.train().steps());
  evaluation->set_loss(2.5);
  evaluation->set_final(true);
  report.set_finished(true);
  OrEnd(pool_.Heartbeat(report).status(), "the last heartbeat");
  AwaitEnd();
}

void PoolDriver::AwaitEnd() {
  while (!OrEnd(pool_.NextEvent(), "the job's end").has_ended()) {
  }
}

}  // namespace longhaul::benchmark
