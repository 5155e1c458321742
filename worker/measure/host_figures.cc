#include "worker/measure/host_figures.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/bytes_text.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/available_memory.h"
#include "common/io/machine_fingerprint.h"
#include "common/wire/proto_values.h"
#include "worker/measure/host_caches.h"
#include "worker/measure/host_kernels.h"
#include "worker/measure/rate.h"

namespace longhaul {
namespace {

// For each figure. There are about fifty.
constexpr absl::Duration kEach = absl::Milliseconds(15);
constexpr absl::Duration kExchange = absl::Milliseconds(200);
// Widths of the smallest model of the examples, of a small and of a large one.
constexpr int kDims[] = {96, 256, 1024};
// Multiplications of a run.
constexpr int64_t kGemmElements = 1 << 24;
// As in a fragment: more than the second cache has.
constexpr int64_t kCodedElements = 1 << 20;
constexpr int kOfOctave = 1;
// Of the memory that is left, and at least and at most.
constexpr int64_t kPartOfMemory = 16, kSetMin = 8 << 20, kSetMax = 256 << 20;
// Of the last cache.
constexpr int64_t kBeyondCache = 4;

class Measurement {
 public:
  Measurement(const HostMeasureOptions& options, int64_t largest)
      : options_(options), largest_(largest) {}

  // In the order of what forecasts need most.
  v1::HostFigures Run() {
    figures_.set_version(options_.version);
    figures_.set_machine(MachineOf(options_.threads, options_.ranks));
    figures_.set_threads(options_.threads);
    figures_.set_ranks(options_.ranks);
    *figures_.mutable_measured_at() = ToProto(absl::Now());
    for (const double bytes : HostCaches(options_.threads))
      figures_.add_cache_bytes(static_cast<int64_t>(bytes));
    figures_.set_memory_bytes(MemoryLimit().value_or(0));
    for (const int dim : kDims) {
      Gemm(dim, false);
      Gemm(dim, true);
    }
    Memory();
    Kernel("adamw");
    Codecs();
    Exchange();
    Kernel("encode");
    Kernel("gather");
    return figures_;
  }

 private:
  bool Over() const { return SteadyTime() - absl::UnixEpoch() >= options_.until; }
  double Rate(const std::function<KernelRun()>& make) const {
    return RateOf(make, options_.threads, kEach);
  }

  void Gemm(int dim, bool bfloat16) {
    if (Over()) return;
    const int64_t rows = std::max<int64_t>(128, kGemmElements / dim / dim);
    v1::GemmFigure& figure = *figures_.add_gemm();
    figure.set_dim(dim);
    figure.set_bfloat16(bfloat16);
    figure.set_gigaflops(2 * Rate([=] { return GemmRun(dim, bfloat16, rows); }) / 1e9);
  }
  void Memory() {
    if (Over()) return;
    const int threads = options_.threads * options_.ranks;
    figures_.set_memory_gb_per_second(
        RateOf([&] { return CopyRun(std::max<int64_t>(1 << 16, largest_ / threads)); }, threads,
               kEach) /
        1e9);
  }
  void Codecs() {
    for (const CodecRow& row : kCodecs) {
      const CodecKind kind = row.kind;
      if (Over()) return;
      v1::CodecFigure& figure = *figures_.add_codecs();
      figure.set_codec(static_cast<v1::Codec>(kind));
      figure.set_encoded_per_second(Rate([=] { return EncodeRun(kind, kCodedElements); }));
      figure.set_decoded_per_second(Rate([=] { return DecodeRun(kind, kCodedElements); }));
    }
  }
  void Kernel(std::string_view name) {
    const HostKernel& kernel = *FindHostKernel(name);
    const int64_t threads = options_.threads;
    v1::KernelFigure* figure = nullptr;
    for (const int64_t bytes : WorkingSets(threads * kernel.bytes_min, largest_, kOfOctave)) {
      if (Over()) return;
      if (figure == nullptr) figure = figures_.add_kernels();
      figure->set_name(std::string(name));
      v1::KernelRate& rate = *figure->add_rates();
      rate.set_working_set_bytes(bytes);
      rate.set_elements_per_second(Rate([&] { return kernel.make(bytes / threads); }));
    }
  }
  void Exchange() {
    if (Over() || options_.exchange == nullptr) return;
    const absl::StatusOr<double> bytes = options_.exchange(kExchange);
    if (bytes.ok()) figures_.set_exchange_gb_per_second(*bytes / 1e9);
  }

  const HostMeasureOptions& options_;
  const int64_t largest_;
  v1::HostFigures figures_;
};

}  // namespace

std::string MachineOf(int threads, int ranks) {
  return MachineFingerprint(absl::StrCat(ranks, " x ", threads, " threads"));
}

absl::StatusOr<int64_t> LargestWorkingSet(int threads) {
  const std::vector<double> caches = HostCaches(threads);
  const double last = caches.empty() ? kSetMax / kBeyondCache : caches.back();
  const int64_t wanted =
      std::clamp<int64_t>(kBeyondCache * static_cast<int64_t>(last), kSetMin, kSetMax);
  const absl::StatusOr<int64_t> left = AvailableMemory();
  if (!left.ok()) return wanted;
  const int64_t most = *left / kPartOfMemory;
  if (most >= kSetMin) return std::min(wanted, most);
  return absl::FailedPreconditionError(
      absl::StrCat("too little memory is left to measure this machine: ", BytesText(*left), " of ",
                   BytesText(kPartOfMemory * kSetMin)));
}

absl::StatusOr<v1::HostFigures> MeasureHost(const HostMeasureOptions& options) {
  LH_ASSIGN_OR_RETURN(const int64_t largest, LargestWorkingSet(options.threads));
  const absl::Time start = SteadyTime();
  v1::HostFigures figures = Measurement(options, largest).Run();
  if (figures.gemm().empty())
    return absl::DeadlineExceededError("the time was over before anything was measured");
  figures.set_seconds(absl::ToDoubleSeconds(SteadyTime() - start));
  return figures;
}

}  // namespace longhaul
