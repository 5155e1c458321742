// All-reduce over loopback TCP: this project's gloo communicator against gloo's own ring,
// alternating, ranks as threads.
//
//   collective_benchmark [--smoke]
//
// Bus bandwidth is bytes * 2 (n - 1) / n / time: what each rank's link must carry at least, so
// figures of different n compare. One line for each case: ranks, MiB, own best and median, ring
// best and median (GB/s).
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_context.h"
#include "worker/collective/in_process_rendezvous.h"

namespace longhaul {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(5);

void OnEveryRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

struct Rank {
  std::unique_ptr<Communicator> own;
  std::shared_ptr<gloo::Context> ring;
  std::vector<float> data;
};

std::vector<Rank> MakeRanks(int size, int64_t count) {
  std::vector<Rank> ranks(size);
  InProcessRendezvous first(size), second(size);
  OnEveryRank(size, [&](int r) {
    auto own =
        MakeGlooCommunicator({.rank = r, .size = size, .rendezvous = &first, .timeout = kTimeout});
    auto ring = GlooContext::Connect(r, size, "127.0.0.1", second, kTimeout);
    LH_CHECK(own.ok() && ring.ok(), "cannot connect the ranks");
    ranks[r] = {*std::move(own), *std::move(ring), std::vector<float>(count, 1)};
    ranks[r].ring->setTimeout(absl::ToChronoMilliseconds(kTimeout));
  });
  return ranks;
}

void RunOwn(Rank& rank) {
  const absl::Status status =
      rank.own->AllReduceSum(absl::MakeSpan(rank.data), {.timeout = kTimeout});
  LH_CHECK(status.ok(), status.ToString().c_str());
}

void RunRing(Rank& rank) {
  gloo::AllreduceOptions options(rank.ring);
  options.setOutput(rank.data.data(), rank.data.size());
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setReduceFunction(
      [](void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); });
  gloo::allreduce(options);
}

double SecondsOf(std::vector<Rank>& ranks, const std::function<void(Rank&)>& run) {
  const auto start = std::chrono::steady_clock::now();
  OnEveryRank(static_cast<int>(ranks.size()), [&](int r) { run(ranks[r]); });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Measure(int size, int64_t bytes, int repetitions) {
  std::vector<Rank> ranks = MakeRanks(size, bytes / sizeof(float));
  SecondsOf(ranks, RunOwn);  // first touch, socket buffers
  SecondsOf(ranks, RunRing);
  std::vector<double> own, ring;
  for (int i = 0; i < repetitions; ++i) {
    own.push_back(SecondsOf(ranks, RunOwn));
    ring.push_back(SecondsOf(ranks, RunRing));
  }
  const auto bandwidth = [&](std::vector<double>& seconds, size_t index) {
    std::sort(seconds.begin(), seconds.end());
    return bytes * 2.0 * (size - 1) / size / seconds[index] / 1e9;
  };
  const size_t middle = repetitions / 2;
  std::printf("%5d %7.2f %9.2f %9.2f %9.2f %9.2f\n", size, bytes / 1048576.0, bandwidth(own, 0),
              bandwidth(own, middle), bandwidth(ring, 0), bandwidth(ring, middle));
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const bool smoke = argc == 2 && std::strcmp(argv[1], "--smoke") == 0;
  if (argc > 1 && !smoke) {
    std::fprintf(stderr, "usage: %s [--smoke]\n", argv[0]);
    return 2;
  }
  std::printf("ranks     MiB  own best    median ring best    median   (bus GB/s)\n");
  const std::vector<int64_t> sizes =
      smoke ? std::vector<int64_t>{1 << 20} : std::vector<int64_t>{1 << 16, 1 << 20, 64 << 20};
  for (const int size : {2, 4}) {
    for (const int64_t bytes : sizes) longhaul::Measure(size, bytes, smoke ? 3 : 21);
  }
  return 0;
}
