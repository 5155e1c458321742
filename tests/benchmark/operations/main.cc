// What a coordinator takes of its machine while little happens, and how soon it shows its metrics:
//
//   operations_benchmark [--smoke] [--pools=N] [--seconds=S] [idle | fleet | metrics | door]...
//
// A coordinator in a process of its own; its CPU time and memory are those that /proc tells.
// --smoke: few pools for a short time, to see that all of it works.
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "grpcpp/create_channel.h"
#include "longhaul/v1/server.grpc.pb.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/operations/coordinator_process.h"
#include "tests/benchmark/operations/fleet.h"
#include "tests/integration/coordinator/hand_pool.h"
#include "tests/testing/tcp.h"
#include "worker/agent/membership_client.h"

namespace longhaul::benchmark {
namespace {

struct Size {
  int pools = 1000, metric_pools = 100, requests = 400, calls = 5000;
  absl::Duration measured = absl::Seconds(10), settled = absl::Seconds(4);
};

const char* NameOf(Door door) {
  switch (door) {
    case Door::kOpen:
      return "plaintext";
    case Door::kTls:
      return "tls";
    case Door::kTlsAndTokens:
      return "tls_and_tokens";
  }
  return "";
}

// Of at most `most`: larger is better.
void PrintAtMost(const std::string& name, double ours, double most, const char* unit,
                 const std::string& note) {
  Print({.name = name,
         .ours = ours,
         .reference = most,
         .ratio = most / std::max(ours, most * 1e-3),
         .target = 1,
         .unit = unit,
         .note = note});
}

// Percent of a core from now on.
double CpuPercent(const CoordinatorProcess& coordinator, absl::Duration time) {
  const double before = coordinator.CpuSeconds();
  const absl::Time begun = absl::Now();
  absl::SleepFor(time);
  return 100 * (coordinator.CpuSeconds() - before) / absl::ToDoubleSeconds(absl::Now() - begun);
}

void Idle(Door door, const Size& size) {
  const CoordinatorProcess coordinator(door);
  absl::SleepFor(size.settled);
  const double percent = CpuPercent(coordinator, size.measured);
  PrintAtMost(absl::StrCat("idle_memory_", NameOf(door)), coordinator.ResidentMegabytes(), 60, "MB",
              "resident");
  PrintAtMost(absl::StrCat("idle_cpu_", NameOf(door)), percent, 1, "%", "of a core");
}

// `name`: of pools that have been idle for long, or just begin to be.
void IdlePools(Door door, const Size& size, const char* name, absl::Duration heartbeat,
               std::optional<double> most) {
  const CoordinatorProcess coordinator(door);
  Fleet fleet(coordinator, size.pools, heartbeat);
  absl::SleepFor(size.settled);
  const int64_t answered = fleet.answered(), late = fleet.late();
  const double percent = CpuPercent(coordinator, size.measured);
  const double rate =
      static_cast<double>(fleet.answered() - answered) / absl::ToDoubleSeconds(size.measured);
  LH_CHECK(fleet.failed() == 0, "a heartbeat failed");
  const double reference = most.value_or(30);
  Print({.name = absl::StrFormat("%s_%d_cpu_%s", name, size.pools, NameOf(door)),
         .ours = percent,
         .reference = reference,
         .ratio = reference / std::max(percent, reference * 1e-3),
         .target = most.has_value() ? std::optional<double>(1) : std::nullopt,
         .unit = "%",
         .note = absl::StrFormat("of a core; %.0f heartbeats/s, %d left out, %.0f MB resident",
                                 rate, fleet.late() - late, coordinator.ResidentMegabytes())});
}

v1::JobSpec SpecFor(int pools) {
  v1::JobSpec spec;
  spec.set_name("shown");
  spec.mutable_model()->mutable_synthetic()->set_units(1);
  spec.mutable_model()->mutable_synthetic()->set_elements(256);
  spec.mutable_train()->set_steps(1000);
  v1::SyncSpec& sync = *spec.mutable_sync();
  sync.set_h(10);
  sync.mutable_outer()->set_lr(1);
  sync.mutable_up()->set_codec(v1::FP32);
  sync.mutable_down()->set_codec(v1::FP32);
  spec.mutable_pools()->set_min(pools);
  return spec;
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values.at(static_cast<size_t>(part * static_cast<double>(values.size() - 1)));
}

// Pools in a job, each of which reports its progress.
void Metrics(const Size& size) {
  const CoordinatorProcess coordinator(Door::kOpen);
  std::vector<std::unique_ptr<HandPool>> pools;
  for (int i = 0; i < size.metric_pools; ++i) {
    pools.push_back(std::make_unique<HandPool>(coordinator.address(), absl::StrCat("site-", i)));
    const absl::Status joined = pools.back()->Join().status();
    LH_CHECK(joined.ok(), joined.ToString().c_str());
  }
  const auto jobs = v1::JobService::NewStub(
      grpc::CreateChannel(coordinator.address(), grpc::InsecureChannelCredentials()));
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = SpecFor(size.metric_pools);
  v1::SubmitJobResponse submitted;
  grpc::ClientContext context;
  const grpc::Status status = jobs->SubmitJob(&context, submit, &submitted);
  LH_CHECK(status.ok(), status.error_message().c_str());
  for (const auto& pool : pools) {
    const absl::Status assigned = pool->AwaitAssignment(submitted.job().id());
    LH_CHECK(assigned.ok(), assigned.ToString().c_str());
  }
  for (const auto& pool : pools) {
    const absl::Status planned = pool->OpenPlan(submitted.job().id()).status();
    LH_CHECK(planned.ok(), planned.ToString().c_str());
  }
  std::vector<double> milliseconds, cpu;
  std::string text;
  absl::Time beat_at = absl::InfinitePast(), shown_by = absl::Now() + absl::Seconds(2);
  while (static_cast<int>(milliseconds.size()) < size.requests) {
    if (absl::Now() >= beat_at) {
      v1::HeartbeatRequest report;
      report.mutable_progress()->set_ranks(1);
      report.mutable_progress()->set_train_loss(2.5);
      report.mutable_progress()->set_tokens_per_second(1000);
      for (const auto& pool : pools) LH_CHECK(pool->Heartbeat(report).ok(), "a heartbeat failed");
      beat_at = absl::Now() + absl::Seconds(1);
    }
    const absl::Time begun = absl::Now();
    const double cpu_before = coordinator.CpuSeconds();
    text = HttpGet(coordinator.http_port(), "/metrics");
    if (absl::Now() > shown_by) {
      milliseconds.push_back(absl::ToDoubleMilliseconds(absl::Now() - begun));
      cpu.push_back(1e3 * (coordinator.CpuSeconds() - cpu_before));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  std::set<std::string> shown;
  for (const auto& pool : pools)
    if (absl::StrContains(text, absl::StrCat("pool=\"", pool->name(), "\"")))
      shown.insert(pool->name());
  LH_CHECK(static_cast<int>(shown.size()) == size.metric_pools, "a pool has no metrics");
  const std::string note = absl::StrFormat("%d pools in a job, %d KiB a page, %d requests",
                                           size.metric_pools, text.size() >> 10, size.requests);
  PrintAtMost("metrics_p50", Quantile(milliseconds, 0.5), 5, "ms", note);
  PrintAtMost("metrics_p99", Quantile(milliseconds, 0.99), 5, "ms", note);
  // Ticks of the clock are 10 ms: a mean alone says something. What others do meanwhile does not
  // count here.
  const double mean =
      std::accumulate(cpu.begin(), cpu.end(), 0.0) / static_cast<double>(cpu.size());
  PrintAtMost("metrics_cpu", mean, 5, "ms", "of the coordinator, for a request");
}

// Calls one after another on one connection.
class Caller {
 public:
  explicit Caller(Door door)
      : coordinator_(door),
        stub_(v1::ServerService::NewStub(
            grpc::CreateChannel(coordinator_.address(), coordinator_.CredentialsOf("caller")))) {}

  struct Cost {
    double cpu = 0, seconds = 0;  // Of the coordinator, and of the caller's clock. Of a call.
  };
  Cost Call(int calls) {
    const double before = coordinator_.CpuSeconds();
    const double seconds = Seconds([&] {
      for (int i = 0; i < calls; ++i) Once();
    });
    return {(coordinator_.CpuSeconds() - before) / calls, seconds / calls};
  }

 private:
  void Once() {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + CoordinatorProcess::token());
    v1::ProbeResponse response;
    const grpc::Status status = stub_->Probe(&context, {}, &response);
    LH_CHECK(status.ok(), status.error_message().c_str());
  }

  const CoordinatorProcess coordinator_;
  const std::unique_ptr<v1::ServerService::Stub> stub_;
};

void CallCost(const Size& size) {
  Caller open(Door::kOpen), tls(Door::kTls), tokens(Door::kTlsAndTokens);
  struct Costs {
    std::vector<double> cpu, seconds;
    void Add(const Caller::Cost& cost) {
      cpu.push_back(1e6 * cost.cpu);
      seconds.push_back(1e6 * cost.seconds);
    }
  } of_open, of_tls, of_tokens;
  for (Caller* caller : {&open, &tls, &tokens}) caller->Call(size.calls / 10);
  for (int round = 0; round < 5; ++round) {
    of_open.Add(open.Call(size.calls));
    of_tls.Add(tls.Call(size.calls));
    of_tokens.Add(tokens.Call(size.calls));
  }
  const auto print = [&](const char* name, const Costs& costs) {
    for (const auto& [what, ours, reference] :
         {std::tuple("cpu", Median(costs.cpu), Median(of_open.cpu)),
          {"time", Median(costs.seconds), Median(of_open.seconds)}}) {
      Print({.name = absl::StrCat("call_", what, "_", name),
             .ours = ours,
             .reference = reference,
             .ratio = reference / std::max(ours, 1e-3),  // A smoke run is over within a tick.
             .target = {},
             .unit = "us",
             .note = "of an empty call, against an open door; cpu: the coordinator's"});
    }
  };
  print("tls", of_tls);
  print("tls_and_tokens", of_tokens);
}

// Each pool has two connections, and each has an end here and one there.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  Size size;
  int seconds = 10;
  std::set<std::string> parts;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--smoke") {
      size = {.pools = 20,
              .metric_pools = 5,
              .requests = 10,
              .calls = 50,
              .measured = absl::Milliseconds(500),
              .settled = absl::Milliseconds(500)};
    } else if (absl::ConsumePrefix(&argument, "--pools=")) {
      LH_CHECK(absl::SimpleAtoi(argument, &size.pools) && size.pools > 0, "--pools=N");
    } else if (absl::ConsumePrefix(&argument, "--seconds=")) {
      LH_CHECK(absl::SimpleAtoi(argument, &seconds) && seconds > 0, "--seconds=S");
      size.measured = absl::Seconds(seconds);
    } else {
      parts.insert(std::string(argument));
    }
  }
  for (const std::string& part : parts)
    LH_CHECK((std::set<std::string>{"idle", "fleet", "metrics", "door"}.contains(part)),
             "idle, fleet, metrics or door");
  RaiseFileLimit();
  const auto wanted = [&](const char* part) { return parts.empty() || parts.contains(part); };
  if (wanted("idle"))
    for (const Door door : {Door::kOpen, Door::kTlsAndTokens}) Idle(door, size);
  if (wanted("fleet"))
    for (const Door door : {Door::kOpen, Door::kTlsAndTokens}) {
      IdlePools(door, size, "idle_pools", kIdleHeartbeat, 30);
      IdlePools(door, size, "pools_idle_just_now", absl::Milliseconds(500), std::nullopt);
    }
  if (wanted("metrics")) Metrics(size);
  if (wanted("door")) CallCost(size);
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
