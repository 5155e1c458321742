#include "tests/benchmark/partition/traffic_rank.h"

#include <chrono>
#include <memory>

#include "ATen/Parallel.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/benchmark/partition/layered_model.h"
#include "worker/engine/engine.h"

namespace longhaul::benchmark {
namespace {

using Json = nlohmann::json;

constexpr const char* kUseNames[kUses] = {"forward", "backward", "gradient", "refresh"};

Json ToJson(const std::array<ReceivedBytes::ByLevel, kUses>& bytes,
            const std::array<ReceivedBytes::ByLevel, kUses>& before) {
  Json json;
  for (int use = 0; use < kUses; ++use) {
    for (const Level level : {Level::kPair, Level::kNode, Level::kPool}) {
      const auto l = static_cast<size_t>(level);
      json[kUseNames[use]][std::string(LevelName(level))] = bytes[use][l] - before[use][l];
    }
  }
  return json;
}

}  // namespace

absl::StatusOr<std::string> RunTrafficRank(const TrafficOptions& options,
                                           Communicator* communicator) {
  at::set_num_threads(1);
  const int ranks = communicator == nullptr ? 1 : communicator->size();
  LH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(
          {.model = std::make_unique<LayeredModel>(options.units, options.elements),
           .link = {.communicator = communicator, .ranks_of_node = options.ranks_of_node},
           .partition = options.map,
           .compute = at::kBFloat16,
           .accumulation = options.accumulation}));
  // One token a micro-batch.
  const std::vector<int64_t> tokens(2 * options.accumulation);
  const ReceivedBytes before = engine->exchange().received();
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < options.steps; ++step) {
    LH_RETURN_IF_ERROR(
        engine->Step({options.accumulation, 1, tokens}, options.accumulation * ranks, 1e-3)
            .status());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const ReceivedBytes received = engine->exchange().received();
  const StateBytes state = engine->state_bytes();
  return Json({{"received", ToJson(received.payload, before.payload)},
               {"scales", ToJson(received.scales, before.scales)},
               {"state_bytes_per_rank",
                {{"weights", state.weights},
                 {"secondary", state.secondary},
                 {"gradients", state.gradients},
                 {"optimizer", state.optimizer}}},
               {"seconds", seconds.count()}})
      .dump();
}

}  // namespace longhaul::benchmark
