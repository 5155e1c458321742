// One rank of process_test: all-reduces over gloo until a peer is lost, then reports on standard
// output:
//   ready <first sum>                   after ten all-reduces
//   lost <wall clock, us> <status>      when a collective fails
// Arguments: rank, size, address of the rendezvous.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "worker/collective/gloo_communicator.h"
#include "worker/rendezvous/rendezvous_client.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  signal(SIGPIPE, SIG_IGN);
  const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]);
  longhaul::RendezvousClient rendezvous(
      {.address = argv[3], .token = "process test", .size = size});
  auto communicator = longhaul::MakeGlooCommunicator(
      {.rank = rank, .size = size, .rendezvous = &rendezvous, .timeout = absl::Seconds(60)});
  if (!communicator.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, communicator.status().ToString().c_str());
    return 1;
  }
  std::vector<float> data(1 << 20);
  for (int turn = 0;; ++turn) {
    data.assign(data.size(), static_cast<float>(rank));
    const absl::Status status =
        (*communicator)->AllReduceSum(absl::MakeSpan(data), {.timeout = absl::Seconds(60)});
    if (!status.ok()) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      std::printf("lost %lld %s\n",
                  static_cast<long long>(
                      std::chrono::duration_cast<std::chrono::microseconds>(now).count()),
                  status.ToString().c_str());
      return 0;
    }
    if (turn == 10) {
      std::printf("ready %g\n", data[0]);
      std::fflush(stdout);
    }
  }
}
