#include "tests/benchmark/partition/traffic_rank.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/strings/match.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/benchmark/partition/layered_model.h"
#include "tests/testing/token_steps.h"
#include "worker/engine/engine.h"

namespace longhaul::benchmark {
namespace {

using Json = nlohmann::json;

constexpr const char* kUseNames[kUses] = {"forward", "backward", "gradient", "refresh"};

Json ToJson(const std::array<ReceivedBytes::ByLevel, kUses>& bytes) {
  Json json;
  for (int use = 0; use < kUses; ++use) {
    for (const Level level : {Level::kPair, Level::kNode, Level::kPool}) {
      const auto l = static_cast<size_t>(level);
      json[kUseNames[use]][std::string(LevelName(level))] = bytes[use][l];
    }
  }
  return json;
}

// Times what it runs, by the use that the work's name tells.
class TimedQueue : public StreamQueue {
 public:
  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    const char* const use = absl::StrContains(name, "for forward")    ? "forward"
                            : absl::StrContains(name, "for backward") ? "backward"
                            : absl::StartsWith(name, "reducing")      ? "gradient"
                            : absl::StartsWith(name, "refreshing")    ? "refresh"
                                                                      : "other";
    return queue_->Submit(std::move(name), [this, use, work = std::move(work)] {
      const auto start = std::chrono::steady_clock::now();
      const absl::Status status = work();
      seconds_[use] +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      return status;
    });
  }
  absl::Status Wait(Ticket ticket) override { return queue_->Wait(ticket); }

  // When nothing is under way.
  const std::map<std::string, double>& seconds() const { return seconds_; }
  void Forget() { seconds_.clear(); }

 private:
  std::map<std::string, double> seconds_;
  const std::unique_ptr<StreamQueue> queue_ = MakeStreamQueue(at::kCPU);
};

}  // namespace

absl::StatusOr<std::string> RunTrafficRank(const TrafficOptions& options,
                                           Communicator* communicator) {
  at::set_num_threads(1);
  const int ranks = communicator == nullptr ? 1 : communicator->size();
  TimedQueue queue;
  LH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(
          {.plan = {.accumulation = options.accumulation,
                    .clip_norm = 0,
                    .partition = options.map,
                    .precision = ComputePrecision::kBfloat16},
           .site = {.link = {.communicator = communicator, .ranks_of_node = options.ranks_of_node}},
           .model = std::make_unique<LayeredModel>(options.units, options.elements),
           .queue = &queue}));
  queue.Forget();
  // One token a micro-batch.
  const std::vector<int64_t> tokens(2 * options.accumulation);
  const ReceivedBytes before = engine->exchange().received();
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < options.steps; ++step) {
    LH_RETURN_IF_ERROR(
        Step(*engine, {options.accumulation, 1, tokens}, options.accumulation * ranks, 1e-3)
            .status());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const ReceivedBytes received = engine->exchange().received() - before;
  const StateBytes state = engine->state_bytes();
  return Json({{"received", ToJson(received.payload)},
               {"scales", ToJson(received.scales)},
               {"state_bytes_per_rank",
                {{"weights", state.weights},
                 {"secondary", state.secondary},
                 {"gradients", state.gradients},
                 {"optimizer", state.optimizer}}},
               {"seconds", seconds.count()},
               {"collective_seconds", queue.seconds()}})
      .dump();
}

}  // namespace longhaul::benchmark
