// The gloo communicator between processes of this machine, over loopback.
//
//   collective_benchmark time [--ranks N] [--kib K] [--count C]
//     Runs one collective, C times in a row, for each line of standard input, which names it
//     (all_reduce, all_gather, reduce_scatter, all_to_all), and prints the seconds of one, until
//     the input ends: the counterpart of torch_gloo.py, whose sizes these are (collectives.py runs
//     both in turn).
//   collective_benchmark kill [--ranks N] [--rounds R]
//     So many times: SIGKILL of one rank, at some moment of an endless all-reduce, and how long it
//     takes until each survivor has its error. Prints a row; the reference is 100 ms.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/harness/buffer.h"
#include "tests/benchmark/harness/child_process.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/rendezvous/rendezvous_client.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul::benchmark {
namespace {

constexpr char kToken[] = "collective benchmark";
constexpr CallOptions kCall{.timeout = absl::Minutes(1)};
constexpr absl::string_view kOperations[] = {"all_reduce", "all_gather", "reduce_scatter",
                                             "all_to_all"};
// How long a survivor may take.
constexpr double kKnownWithinMs = 100;

// On the clock that all processes share.
double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Arguments {
  int ranks = 2, kib = 64 << 10, count = 1, rounds = 100;
  int rank = -1, generation = 0;
  std::string rendezvous;
};

absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Arguments& arguments) {
  RendezvousClient rendezvous({.address = arguments.rendezvous,
                               .token = kToken,
                               .generation = static_cast<uint64_t>(arguments.generation),
                               .size = arguments.ranks});
  return MakeGlooCommunicator({.rank = arguments.rank,
                               .size = arguments.ranks,
                               .rendezvous = &rendezvous,
                               .timeout = kCall.timeout});
}

absl::Status RunOperation(Communicator& communicator, int operation, absl::Span<float> whole,
                          absl::Span<float> other) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const auto bytes = [](absl::Span<float> values) {
    return absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                          values.size() * sizeof(float));
  };
  const std::vector<Part> parts = EvenParts(bytes(whole).size(), ranks);
  const int64_t share = whole.size() / ranks;
  switch (operation) {
    case 0:
      return communicator.AllReduceSum(whole, kCall);
    case 1:
      return communicator.AllGather(bytes(whole).subspan(parts[rank].offset, parts[rank].size),
                                    parts, bytes(whole), kCall);
    case 2:
      return communicator.ReduceScatterSum(whole, std::vector<int64_t>(ranks, share),
                                           other.subspan(0, share), kCall);
    default:
      return communicator.AllToAll(bytes(whole), parts, bytes(other), parts, kCall);
  }
}

// Rank 0 reads what to do and tells the others; -1: the end.
absl::Status TimeOnRank(const Arguments& arguments) {
  LH_ASSIGN_OR_RETURN(const auto communicator, Connect(arguments));
  const size_t tensor_bytes = (size_t{1} << 10) * arguments.kib;
  const Buffer whole(tensor_bytes), other(tensor_bytes);
  while (true) {
    int32_t operation = -1;
    std::string name;
    if (arguments.rank == 0 && std::getline(std::cin, name)) {
      const auto* known = std::find(std::begin(kOperations), std::end(kOperations), name);
      if (known == std::end(kOperations))
        return absl::InvalidArgumentError(absl::StrCat("no collective is called ", name));
      operation = static_cast<int32_t>(known - std::begin(kOperations));
    }
    LH_RETURN_IF_ERROR(communicator->Broadcast(
        {reinterpret_cast<std::byte*>(&operation), sizeof(operation)}, 0, kCall));
    if (operation < 0) return absl::OkStatus();
    LH_RETURN_IF_ERROR(communicator->Barrier(kCall));
    const double begin = MonotonicSeconds();
    for (int i = 0; i < arguments.count; ++i)
      LH_RETURN_IF_ERROR(RunOperation(*communicator, operation, whole.floats(), other.floats()));
    LH_RETURN_IF_ERROR(communicator->Barrier(kCall));
    if (arguments.rank == 0)
      std::cout << (MonotonicSeconds() - begin) / arguments.count << std::endl;
  }
}

// Prints a line when it begins and the monotonic clock when a peer is known to be gone.
absl::Status ReduceUntilKilled(const Arguments& arguments) {
  LH_ASSIGN_OR_RETURN(const auto communicator, Connect(arguments));
  std::vector<float> values(1 << 20);
  std::cout << "begins" << std::endl;
  absl::Status status;
  while (status.ok()) status = communicator->AllReduceSum(absl::MakeSpan(values), kCall);
  const double now = MonotonicSeconds();
  if (!absl::IsUnavailable(status)) return status;
  std::cout << absl::StrCat(absl::Dec(static_cast<int64_t>(now * 1e9))) << std::endl;
  return absl::OkStatus();
}

class Pool {
 public:
  static absl::StatusOr<Pool> Start(const std::string& mode, const Arguments& arguments) {
    LH_ASSIGN_OR_RETURN(auto server, RendezvousServer::Start({.token = kToken}));
    return Pool(mode, arguments, std::move(server));
  }
  // A new group of processes.
  absl::StatusOr<std::vector<std::unique_ptr<ChildProcess>>> StartRanks() {
    LH_RETURN_IF_ERROR(server_->StartGeneration(++generation_, arguments_.ranks));
    std::vector<std::unique_ptr<ChildProcess>> ranks;
    for (int rank = 0; rank < arguments_.ranks; ++rank) {
      ranks.push_back(std::make_unique<ChildProcess>(std::vector<std::string>{
          "collective_benchmark", mode_, absl::StrCat("--ranks=", arguments_.ranks),
          absl::StrCat("--kib=", arguments_.kib), absl::StrCat("--count=", arguments_.count),
          absl::StrCat("--rank=", rank), absl::StrCat("--generation=", generation_),
          absl::StrCat("--rendezvous=", server_->address())}));
    }
    return ranks;
  }

 private:
  Pool(const std::string& mode, const Arguments& arguments,
       std::unique_ptr<RendezvousServer> server)
      : mode_(mode), arguments_(arguments), server_(std::move(server)) {}

  std::string mode_;
  Arguments arguments_;
  std::unique_ptr<RendezvousServer> server_;
  int generation_ = 0;
};

absl::Status Time(const Arguments& arguments) {
  LH_ASSIGN_OR_RETURN(Pool pool, Pool::Start("time", arguments));
  LH_ASSIGN_OR_RETURN(const auto ranks, pool.StartRanks());
  for (std::string line; !(line = ranks[0]->ReadLine()).empty();) std::cout << line << std::endl;
  return absl::OkStatus();
}

// Milliseconds until the last survivor knew.
absl::StatusOr<double> KillOne(Pool& pool, std::mt19937& random) {
  LH_ASSIGN_OR_RETURN(const auto ranks, pool.StartRanks());
  for (const auto& rank : ranks) {
    if (rank->ReadLine() != "begins") return absl::InternalError("a rank failed");
  }
  absl::SleepFor(absl::Milliseconds(1 + random() % 50));
  const size_t victim = random() % ranks.size();
  const double killed = MonotonicSeconds();
  ranks[victim]->Kill();
  double worst = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == victim) continue;
    int64_t known_ns = 0;
    if (!absl::SimpleAtoi(ranks[rank]->ReadLine(), &known_ns))
      return absl::InternalError("a survivor failed");
    worst = std::max(worst, known_ns / 1e6 - killed * 1e3);
  }
  return worst;
}

absl::Status Kill(const Arguments& arguments) {
  LH_ASSIGN_OR_RETURN(Pool pool, Pool::Start("kill", arguments));
  std::mt19937 random(1);
  std::vector<double> worst;
  for (int round = 0; round < arguments.rounds; ++round) {
    LH_ASSIGN_OR_RETURN(const double ms, KillOne(pool, random));
    worst.push_back(ms);
  }
  const double most = *std::max_element(worst.begin(), worst.end());
  Print({.name = absl::StrCat("killed_rank_known_", arguments.ranks),
         .ours = most,
         .reference = kKnownWithinMs,
         .ratio = kKnownWithinMs / most,
         .target = 1,
         .unit = "ms",
         .note = absl::StrCat("worst of ", arguments.rounds, " kills, until the last survivor's ",
                              "all-reduce returns; median ", Median(worst), " ms")});
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode != "time" && mode != "kill") {
    std::cerr << "collective_benchmark: expected time or kill" << std::endl;
    return kExitBadArguments;
  }
  const auto end = ReadFlags(
      "The gloo communicator between processes of this machine.", argc - 1, argv + 1,
      {{.name = "--ranks", .value = &arguments.ranks, .least = 2, .most = 256},
       {.name = "--kib", .value = &arguments.kib, .most = 1 << 22},
       {.name = "--count", .value = &arguments.count, .most = 1 << 22},
       {.name = "--rounds", .value = &arguments.rounds, .meaning = "of kill"},
       {.name = "--rank", .value = &arguments.rank, .meaning = "of one rank's process", .least = 0},
       {.name = "--generation", .value = &arguments.generation, .least = 0},
       {.name = "--rendezvous", .value = &arguments.rendezvous}});
  if (end) return *end;
  const bool rank = arguments.rank >= 0;
  const absl::Status status = mode == "time" ? (rank ? TimeOnRank : Time)(arguments)
                                             : (rank ? ReduceUntilKilled : Kill)(arguments);
  if (status.ok()) return 0;
  std::cerr << "collective_benchmark: " << status.message() << std::endl;
  return 1;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
