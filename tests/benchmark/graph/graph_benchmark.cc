// Gathering features on the processor, against a plain loop and against PyTorch's index_select; and
// sampling neighbors on a graph of Reddit's shape, against a plain loop with the same result.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "tests/benchmark/graph/index_select.h"
#include "tests/benchmark/graph/plain_sampler.h"
#include "tests/benchmark/graph/reddit_shape.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "worker/graph/neighbor_sampler.h"
#include "worker/graph/seed_plan.h"
#include "worker/kernels/gather_rows.h"

namespace longhaul::benchmark {
namespace {

struct Sizes {
  int64_t table_bytes = int64_t{1} << 30, gathered_bytes = 2 << 20;
  // Reddit has 232,965 nodes and 114,615,892 edges.
  int64_t nodes = 233000, degree = 492, seeds = 1024, steps = 8;
  // Of samplings; of gathers.
  int repetitions = 9, gathers = 60;
};

// Memory with large pages, as that of HostRows.
class Table {
 public:
  explicit Table(int64_t bytes) : bytes_(bytes) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LH_CHECK(memory != MAP_FAILED, "the benchmark's table fits the memory");
    madvise(memory, bytes, MADV_HUGEPAGE);
    data_ = static_cast<float*>(memory);
    for (int64_t i = 0; i < bytes / 4; ++i) data_[i] = static_cast<float>(i & 0xffff);
  }
  ~Table() { munmap(data_, bytes_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  float* get() const { return data_; }

 private:
  float* data_;
  int64_t bytes_;
};

// What one would write first.
__attribute__((noinline)) void PlainGather(const uint8_t* table, int64_t row_bytes,
                                           const std::vector<int64_t>& ids, uint8_t* out) {
  for (const int64_t id : ids) {
    std::memcpy(out, table + id * row_bytes, row_bytes);
    out += row_bytes;
  }
}

void MeasureGather(const Sizes& sizes) {
  const Table table(sizes.table_bytes);
  struct Case {
    int64_t columns;
    double target;
  };
  for (const Case& c : {Case{25, 1.5}, Case{100, 1.1}, Case{128, 1.1}, Case{129, 1.1}}) {
    const int64_t row_bytes = 4 * c.columns, rows = sizes.table_bytes / row_bytes;
    const int64_t gathered = sizes.gathered_bytes / row_bytes;
    // Each gather has rows of its own: others would still be in the caches.
    Random random(1);
    std::vector<std::vector<int64_t>> batches(2 * sizes.gathers + 3);
    for (std::vector<int64_t>& batch : batches) {
      for (int64_t i = 0; i < gathered; ++i)
        batch.push_back(static_cast<int64_t>(random.Below(rows)));
    }
    size_t turn = 0;
    const auto next = [&]() -> const std::vector<int64_t>& {
      return batches[turn++ % batches.size()];
    };
    std::vector<float> ours(gathered * c.columns), other(ours.size());
    const auto* const bytes = reinterpret_cast<const uint8_t*>(table.get());
    const auto gather = [&] {
      GatherRows(bytes, row_bytes, next(), reinterpret_cast<uint8_t*>(ours.data()), nullptr);
    };
    const auto plain = [&] {
      PlainGather(bytes, row_bytes, next(), reinterpret_cast<uint8_t*>(other.data()));
    };
    const auto torch = [&] {
      IndexSelect(table.get(), rows, c.columns, next().data(), gathered, other.data());
    };
    gather();
    turn = 0;
    plain();
    LH_CHECK(ours == other, "the same rows");
    turn = 0;
    torch();
    LH_CHECK(ours == other, "the same rows");
    const double gigabytes = static_cast<double>(gathered * row_bytes) / 1e9;
    const auto print = [&](const std::string& reference, const Pair& seconds, double target) {
      Print({.name = absl::StrCat("graph / gather, rows of ", row_bytes, " bytes, ", reference),
             .ours = gigabytes / seconds.ours,
             .reference = gigabytes / seconds.reference,
             .ratio = seconds.reference / seconds.ours,
             .target = target,
             .unit = "GB/s",
             .note = "one thread, random rows"});
    };
    print("plain loop", Alternate(sizes.gathers, gather, plain), c.target);
    const Pair of_torch = Alternate(sizes.gathers, gather, torch);
    // Wider rows than 100 bytes have no target of their own.
    print("index_select", of_torch, c.columns == 25 ? 2 : 1);
  }
}

void MeasureSampling(const Sizes& sizes) {
  const RedditShape graph(sizes.nodes, sizes.degree);
  const SeedPlan plan =
      SeedPlan::Create({.seeds = sizes.nodes, .batch = sizes.seeds, .seed = 1}).value();
  std::vector<std::vector<int64_t>> seeds;
  for (int64_t step = 1; step <= sizes.steps; ++step) seeds.push_back(plan.Take(step, 0, 1));
  PlainSampler plain(graph.edges(), {25, 10}, 3);
  auto sampler = NeighborSampler::Create(graph.edges(), {.fanout = {25, 10}, .seed = 3}).value();
  for (const int threads : {1, 2}) {
    ThreadTeam team(threads);
    int64_t edges = 0;
    SampledBatch ours, other;
    const Pair seconds = Alternate(
        sizes.repetitions,
        [&] {
          edges = 0;
          for (int64_t step = 0; step < sizes.steps; ++step) {
            ours = sampler.Sample(step + 1, seeds[step], {}, &team).value();
            edges += static_cast<int64_t>(ours.source_rows.size());
          }
        },
        [&] {
          for (int64_t step = 0; step < sizes.steps; ++step)
            other = plain.Sample(step + 1, seeds[step]);
        });
    LH_CHECK(ours.nodes == other.nodes && ours.source_rows == other.source_rows &&
                 ours.indptr == other.indptr && ours.level_ends == other.level_ends,
             "the same samples");
    const double millions = static_cast<double>(edges) / 1e6;
    Print({.name = absl::StrCat("graph / sampling 25,10, ", threads, " threads, plain loop"),
           .ours = millions / seconds.ours,
           .reference = millions / seconds.reference,
           .ratio = seconds.reference / seconds.ours,
           .target = threads == 2 ? std::optional<double>(2) : std::nullopt,
           .unit = "Medge/s",
           .note = absl::StrCat(sizes.nodes, " nodes, ", graph.sources.size(), " edges, ",
                                sizes.seeds, " seeds")});
    if (threads < 2) continue;
    Print({.name = "graph / sampling 25,10, 2 threads, rate",
           .ours = millions / seconds.ours,
           .reference = 4,
           .ratio = millions / seconds.ours / 4,
           .target = 1,
           .unit = "Medge/s",
           .note = "reference: 4 million edges a second"});
  }
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  using namespace longhaul;  // NOLINT: a file of one function
  bool smoke = false, gather = false, sampling = false;
  const auto end = benchmark::ReadFlags(
      "Gathering features and sampling neighbors, against plain loops and PyTorch.", argc, argv,
      {{"--smoke", &smoke, "small and short"},
       {"--gather", &gather, "only this"},
       {"--sampling", &sampling, "only this"}});
  if (end) return *end;
  benchmark::Sizes sizes;
  if (smoke) {
    sizes = {.table_bytes = 1 << 22,
             .gathered_bytes = 1 << 17,
             .nodes = 3000,
             .degree = 20,
             .seeds = 100,
             .steps = 2,
             .repetitions = 1,
             .gathers = 2};
  }
  if (!sampling) benchmark::MeasureGather(sizes);
  if (!gather) benchmark::MeasureSampling(sizes);
}
