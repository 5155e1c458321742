// What a GPU's gathers straight from host memory reach (zero-copy), with a table far larger than
// what the GPU's address translation covers.
//   link       a million rows by width; reference: a copy of as many bytes of pinned memory
//   processor  the same; reference: the processor gathers into pinned memory, which is then copied
//   alignment  accesses that begin at lines; reference: accesses that begin at the row
//   beside     a gather of few threads beside matrix products: what each keeps of its own rate
//
//   device_gather_benchmark [--table-gib N] [--rows N] [--threads N] [--smoke]
//
// Without a CUDA device: no rows. --smoke: small, and emulated; figures mean nothing.
#include <sys/mman.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_cat.h"
#include "c10/core/Event.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/base/thread_team.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/emulated_gather_kernels.h"
#include "worker/engine/device.h"
#include "worker/engine/torch_status.h"
#include "worker/graph/feature_table.h"
#include "worker/kernels/gather_rows.h"
#include "worker/model/device_stream.h"

namespace longhaul::benchmark {
namespace {

struct Sizes {
  int64_t table_bytes = int64_t{16} << 30, rows = 1'000'000;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int repetitions = 5;
  // Of the matrices beside.
  int64_t product = 8192;
};

void Must(const absl::Status& status) {
  if (!status.ok()) std::cerr << status << std::endl;
  LH_CHECK(status.ok(), "the device failed");
}

class Bench {
 public:
  Bench(const Sizes& sizes, at::Device device, const GatherKernels& kernels)
      : sizes_(sizes), device_(device), kernels_(kernels), team_(sizes.threads) {
    void* const memory = mmap(nullptr, sizes.table_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LH_CHECK(memory != MAP_FAILED, "the benchmark's table fits the memory");
    madvise(memory, sizes.table_bytes, MADV_HUGEPAGE);
    table_ = static_cast<float*>(memory);
    team_.ForParts(sizes.table_bytes / 4, 1 << 20, [this](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i)
        table_[i] = static_cast<float>(i * 2654435761 >> 8 & 0xffff);
    });
    absl::StatusOr<const void*> address = kernels.Register(table_, sizes.table_bytes);
    Must(address.status());
    address_ = static_cast<const uint8_t*>(*address);
  }
  ~Bench() {
    Must(kernels_.Unregister(table_));
    munmap(table_, sizes_.table_bytes);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Run() {
    for (const int64_t columns : {25, 47, 100, 128, 129, 256, 353, 602}) OfWidth(columns);
    if (!device_.is_cpu()) Beside();
  }

 private:
  struct Rows {
    int64_t columns = 0;
    std::vector<int64_t> ids;
    at::Tensor sorted, places, out;
    int64_t bytes() const { return static_cast<int64_t>(ids.size()) * columns * 4; }
  };

  Rows Draw(int64_t columns) const {
    const int64_t of_table = sizes_.table_bytes / (4 * columns);
    Rows rows{.columns = columns};
    Random random(columns);
    for (int64_t i = 0; i < sizes_.rows; ++i)
      rows.ids.push_back(static_cast<int64_t>(random.Below(of_table)));
    const RowOrder order = AscendingRows(rows.ids, of_table).value();
    rows.sorted = at::tensor(order.ids, at::TensorOptions(at::kLong)).to(device_);
    rows.places = at::tensor(order.places, at::TensorOptions(at::kInt)).to(device_);
    rows.out = at::empty({sizes_.rows, columns}, at::TensorOptions(at::kFloat).device(device_));
    return rows;
  }
  GatherJob JobOf(const Rows& rows) const {
    return {.table = address_,
            .row_bytes = 4 * rows.columns,
            .ids = rows.sorted.const_data_ptr<int64_t>(),
            .places = rows.places.const_data_ptr<int32_t>(),
            .count = sizes_.rows,
            .out = static_cast<uint8_t*>(rows.out.mutable_data_ptr())};
  }
  void Launch(const GatherJob& job) const { Must(kernels_.Gather(job, CurrentStream(device_))); }

  // With the work done.
  std::function<void()> Done(const std::function<void()>& work) const {
    return [this, work] {
      work();
      Must(AwaitDevice(device_, "the benchmark", absl::Minutes(1)));
    };
  }

  void Check(const Rows& rows) const {
    const at::Tensor out = rows.out.cpu();
    const float* const values = out.const_data_ptr<float>();
    for (size_t i = 0; i < rows.ids.size(); i += 97) {
      LH_CHECK(std::equal(values + i * rows.columns, values + (i + 1) * rows.columns,
                          table_ + rows.ids[i] * rows.columns),
               "the same rows");
    }
  }

  void OfWidth(int64_t columns) {
    const Rows rows = Draw(columns);
    const GatherJob job = JobOf(rows);
    const auto gather = Done([&] { Launch(job); });
    const at::Tensor pinned = at::empty(
        {sizes_.rows, columns}, at::TensorOptions(at::kFloat).pinned_memory(device_.is_cuda()));
    const at::Tensor there = at::empty_like(rows.out);
    const auto copy = [&] { at::Tensor(there).copy_(pinned, /*non_blocking=*/true); };
    gather();
    Check(rows);
    Done(copy)();
    const double gigabytes = static_cast<double>(rows.bytes()) / 1e9;
    const auto print = [&](const std::string& what, const Pair& seconds,
                           std::optional<double> target) {
      Print({.name = absl::StrCat("device graph / gather, rows of ", 4 * columns, " bytes, ", what),
             .ours = gigabytes / seconds.ours,
             .reference = gigabytes / seconds.reference,
             .ratio = seconds.reference / seconds.ours,
             .target = target,
             .unit = "GB/s",
             .note = absl::StrCat(sizes_.rows, " random rows of a table of ",
                                  sizes_.table_bytes >> 30, " GiB")});
    };
    std::optional<double> target;
    if (columns == 25) target = 0.5;
    if (columns == 47) target = 0.65;
    if (columns >= 128) target = 0.8;
    print("copy of pinned memory", Alternate(sizes_.repetitions, gather, Done(copy)), target);
    const auto by_processor = Done([&] {
      GatherRows(reinterpret_cast<const uint8_t*>(table_), 4 * columns, rows.ids,
                 static_cast<uint8_t*>(pinned.mutable_data_ptr()), &team_);
      copy();
    });
    print(absl::StrCat("gather by ", sizes_.threads, " threads and copy"),
          Alternate(sizes_.repetitions, gather, by_processor),
          columns >= 100 ? std::optional<double>(1.5) : std::nullopt);
    if (columns <= 100 || columns == 602) return;
    GatherJob unaligned = job;
    unaligned.aligned = false;
    // Rows that are whole lines begin at lines in any case.
    print("unaligned accesses",
          Alternate(2 * sizes_.repetitions, gather, Done([&] { Launch(unaligned); })),
          columns % 32 == 0 ? 0.98 : 1.04);
  }

  // Each stream's own time from its first to its last work.
  struct Times {
    double products = 0, gathers = 0;
  };
  Times Together(int products, int gathers, const GatherJob& job, const at::Tensor& a,
                 const at::Tensor& b, at::Tensor c) const {
    const c10::impl::VirtualGuardImpl guard(device_.type());
    const c10::Stream stream = guard.getStreamFromGlobalPool(device_, false);
    const auto event = [this] {
      return c10::Event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    };
    c10::Event begin = event(), end = event(), begin_there = event(), end_there = event();
    begin.record(guard.getStream(device_));
    for (int i = 0; i < products; ++i) at::mm_out(c, a, b);
    end.record(guard.getStream(device_));
    {
      const c10::StreamGuard other(stream);
      begin_there.record(stream);
      for (int i = 0; i < gathers; ++i) Launch(job);
      end_there.record(stream);
    }
    end.synchronize();
    end_there.synchronize();
    return {.products = begin.elapsedTime(end), .gathers = begin_there.elapsedTime(end_there)};
  }

  void Beside() const {
    const Rows rows = Draw(128);
    const auto options = at::TensorOptions(at::kBFloat16).device(device_);
    const at::Tensor a = at::randn({sizes_.product, sizes_.product}, options),
                     b = at::randn({sizes_.product, sizes_.product}, options),
                     c = at::empty_like(a);
    for (const int threads : {2048, 4096, 10240, 16384, 32768, 65536}) {
      GatherJob job = JobOf(rows);
      job.threads = threads;
      Together(2, 2, job, a, b, c);
      // As much time for both.
      constexpr int kGathers = 4;
      const double gathers = Together(0, kGathers, job, a, b, c).gathers;
      const double product = Together(10, 0, job, a, b, c).products / 10;
      const int products = std::max(1, static_cast<int>(gathers / product));
      std::vector<double> of_products, of_gathers;
      for (int i = 0; i < sizes_.repetitions; ++i) {
        const double alone = Together(products, 0, job, a, b, c).products,
                     gathered = Together(0, kGathers, job, a, b, c).gathers;
        const Times both = Together(products, kGathers, job, a, b, c);
        of_products.push_back(alone / both.products);
        of_gathers.push_back(gathered / both.gathers);
      }
      const bool ours = threads == GatherJob::kThreadsOfLink;
      const auto print = [&](const char* what, double kept, double target) {
        Print({.name = absl::StrCat("device graph / beside each other, ", threads,
                                    " threads gather: ", what),
               .ours = kept,
               .reference = 1,
               .ratio = kept,
               .target = ours ? std::optional<double>(target) : std::nullopt,
               .unit = "of its rate alone",
               .note = absl::StrCat("products of ", sizes_.product, " in bf16; rows of 512 bytes; ",
                                    rows.bytes() * kGathers / 1e6 / gathers, " GB/s alone")});
      };
      print("products", Median(of_products), 0.95);
      print("gather", Median(of_gathers), 0.85);
    }
  }

  const Sizes sizes_;
  const at::Device device_;
  const GatherKernels& kernels_;
  ThreadTeam team_;
  float* table_ = nullptr;
  const uint8_t* address_ = nullptr;
};

absl::Status RunAll(const Sizes& sizes, bool smoke) {
  const at::NoGradGuard no_gradients;
  if (smoke) {
    const testing_support::EmulatedGatherKernels kernels;
    Bench(sizes, at::kCPU, kernels).Run();
    return absl::OkStatus();
  }
  LH_ASSIGN_OR_RETURN(const at::Device device, OpenCudaDevice(0));
  LH_ASSIGN_OR_RETURN(const GatherKernels* kernels, LoadCudaGatherKernels());
  Bench(sizes, device, *kernels).Run();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Sizes sizes;
  bool smoke = false;
  int64_t gibibytes = sizes.table_bytes >> 30;
  const auto end = ReadFlags("What a GPU's gathers from host memory reach.", argc, argv,
                             {{"--table-gib", &gibibytes},
                              {"--rows", &sizes.rows},
                              {"--threads", &sizes.threads},
                              {"--smoke", &smoke, "small, and emulated"}});
  if (end) return *end;
  sizes.table_bytes = gibibytes << 30;
  if (smoke)
    sizes = {.table_bytes = 1 << 22, .rows = 300, .threads = 1, .repetitions = 1, .product = 16};
  const absl::Status status = CatchTorch("measuring", [&] { return RunAll(sizes, smoke); });
  if (status.ok()) return 0;
  std::cerr << "device_gather_benchmark: " << status.message() << std::endl;
  return absl::IsFailedPrecondition(status) ? 0 : 1;  // No CUDA device.
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
