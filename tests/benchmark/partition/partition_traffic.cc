// What a partition moves and holds: the product's engine over gloo, each rank a process, on a model
// of U units of E elements that computes in bf16.
//
//   partition_traffic --preset P --nodes Y --ranks-per-node X [--accumulation A] [--steps S]
//                     [--units U] [--elements E] [--weights-bits B] [--gradients-bits B] -o json
//
// Prints, of one step: payload bytes received for forward, backward, gradient and refresh, from the
// ranks' pairs and from other pairs of their nodes (means over ranks) and from other nodes (mean
// over nodes); the same of scales; the state that a rank keeps (mean over ranks); seconds of a
// step, and of its collectives with their coding.
//
// Exit codes: 0 ok, 1 a rank failed, 4 bad arguments.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/exit_code.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/layout/model_layout.h"
#include "common/partition/topology.h"
#include "nlohmann/json.hpp"
#include "tests/benchmark/harness/child_process.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/partition/traffic_rank.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/rendezvous/rendezvous_client.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul::benchmark {
namespace {

using Json = nlohmann::json;

constexpr char kToken[] = "partition traffic";

struct Arguments {
  std::string preset = "zero3", output = "json";
  int nodes = 1, ranks_per_node = 1, accumulation = 1, steps = 1, units = 4;
  int64_t elements = 65536;
  // Not given: the preset's.
  std::optional<int> weights_bits, gradients_bits;
  int ranks() const { return nodes * ranks_per_node; }
  std::vector<int> ranks_of_node() const { return std::vector<int>(nodes, ranks_per_node); }
};

absl::StatusOr<PartitionMap> MapOf(const Arguments& arguments) {
  LH_ASSIGN_OR_RETURN(PartitionMap map, PartitionPreset(arguments.preset));
  map.weights.bits = arguments.weights_bits.value_or(map.weights.bits);
  map.gradients.bits = arguments.gradients_bits.value_or(map.gradients.bits);
  const std::vector<PartitionProblem> problems = FindProblems(map);
  if (problems.empty()) return map;
  return absl::InvalidArgumentError(absl::StrCat(problems[0].field, " ", problems[0].what));
}

absl::Status CheckArguments(const Arguments& arguments) {
  if (arguments.ranks_per_node > kRanksMax / arguments.nodes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--nodes, --ranks-per-node: more than %d ranks", kRanksMax));
  }
  if (arguments.elements > kMaxModelElements / arguments.units) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--units, --elements: more than %d parameters", kMaxModelElements));
  }
  LH_ASSIGN_OR_RETURN(const PartitionMap map, MapOf(arguments));
  LH_ASSIGN_OR_RETURN(const Topology topology, Topology::Make(arguments.ranks_of_node()));
  return CheckTopology(map, topology);
}

// A rank's process. Prints what it counted.
absl::Status RunRank(const Arguments& arguments, int rank, const std::string& address) {
  TrafficOptions options{.ranks_of_node = arguments.ranks_of_node(),
                         .accumulation = arguments.accumulation,
                         .steps = arguments.steps,
                         .units = arguments.units,
                         .elements = arguments.elements};
  LH_ASSIGN_OR_RETURN(options.map, MapOf(arguments));
  RendezvousClient rendezvous({.address = address, .token = kToken, .size = arguments.ranks()});
  std::unique_ptr<Communicator> communicator;
  if (arguments.ranks() > 1) {
    LH_ASSIGN_OR_RETURN(communicator, MakeGlooCommunicator({.rank = rank,
                                                            .size = arguments.ranks(),
                                                            .rendezvous = &rendezvous,
                                                            .timeout = absl::Minutes(1)}));
  }
  LH_ASSIGN_OR_RETURN(const std::string counted, RunTrafficRank(options, communicator.get()));
  std::cout << counted << std::endl;
  return absl::OkStatus();
}

// Sums numbers that have the same names.
void Add(const Json& from, Json& to) {
  for (const auto& [name, value] : from.items()) {
    if (value.is_object()) {
      if (!to.contains(name)) to[name] = Json::object();
      Add(value, to[name]);
    } else {
      to[name] = to.value(name, 0.0) + value.get<double>();
    }
  }
}

// By the number of those that a figure is a mean over.
void Divide(Json& json, const std::string& name, double ranks, double nodes) {
  if (json.is_object()) {
    for (auto& [key, value] : json.items()) Divide(value, key, ranks, nodes);
  } else {
    json = json.get<double>() / (name == "pool" ? nodes : ranks);
  }
}

// Prints where the ranks meet, and serves until it is killed.
absl::Status ServeRendezvous(int ranks) {
  LH_ASSIGN_OR_RETURN(const auto server, RendezvousServer::Start({.token = kToken}));
  LH_RETURN_IF_ERROR(server->StartGeneration(0, ranks));
  std::cout << server->address() << std::endl;
  while (true) pause();
}

// An exit code, and the error on stderr.
int CodeOf(const absl::Status& status, int code_of_error = 1) {
  if (status.ok()) return 0;
  std::cerr << "partition_traffic: " << status.message() << std::endl;
  return code_of_error;
}

absl::Status RunPool(const Arguments& arguments) {
  ChildProcess server([&] { return CodeOf(ServeRendezvous(arguments.ranks())); });
  const std::string address = server.ReadLine();
  if (address.empty()) return absl::InternalError("the ranks have no place to meet");
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < arguments.ranks(); ++rank) {
    ranks.push_back(std::make_unique<ChildProcess>(
        [&, rank] { return CodeOf(RunRank(arguments, rank, address)); }));
  }
  Json sum = Json::object();
  for (const auto& rank : ranks) {
    const Json result = Json::parse(rank->ReadLine(), nullptr, /*allow_exceptions=*/false);
    if (result.is_discarded()) return absl::InternalError("a rank failed");
    Add(result, sum);
  }
  for (const char* of_steps : {"received", "scales", "seconds", "collective_seconds"})
    Divide(sum[of_steps], of_steps, arguments.steps, arguments.steps);
  Divide(sum, "", arguments.ranks(), arguments.nodes);
  std::cout << sum.dump(1) << std::endl;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  constexpr int kMost = 1 << 20;
  // CheckArguments tells wrong bits.
  constexpr int kOfPreset = std::numeric_limits<int>::min();
  int weights_bits = kOfPreset, gradients_bits = kOfPreset;
  const auto end =
      ReadFlags("What a partition moves and holds.", argc, argv,
                {{"--preset", &arguments.preset},
                 {.name = "--nodes", .value = &arguments.nodes, .most = kMost},
                 {.name = "--ranks-per-node", .value = &arguments.ranks_per_node, .most = kMost},
                 {.name = "--accumulation", .value = &arguments.accumulation, .most = kMost},
                 {.name = "--steps", .value = &arguments.steps, .most = kMost},
                 {.name = "--units", .value = &arguments.units, .most = kMost},
                 {.name = "--elements",
                  .value = &arguments.elements,
                  .most = static_cast<double>(kMaxModelElements)},
                 {.name = "--weights-bits", .value = &weights_bits, .least = kOfPreset},
                 {.name = "--gradients-bits", .value = &gradients_bits, .least = kOfPreset},
                 {.name = "-o", .value = &arguments.output, .choices = {"json"}}});
  if (end) return *end;
  if (weights_bits != kOfPreset) arguments.weights_bits = weights_bits;
  if (gradients_bits != kOfPreset) arguments.gradients_bits = gradients_bits;
  if (const absl::Status valid = CheckArguments(arguments); !valid.ok())
    return CodeOf(valid, kExitBadArguments);
  return CodeOf(RunPool(arguments));
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
