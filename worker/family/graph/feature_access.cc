#include "worker/family/graph/feature_access.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/bytes_text.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/thread_team.h"
#include "common/io/available_memory.h"
#include "worker/engine/device.h"
#include "worker/engine/torch_status.h"

namespace longhaul {
namespace {

// Timed gathers of a kind of access end after so long, and have so many rows and bytes each at
// least: fewer would measure the launch.
constexpr absl::Duration kTimed = absl::Milliseconds(300);
constexpr int64_t kTimedRows = 8192, kTimedBytes = int64_t{16} << 20;
constexpr int kTimedGathers = 16;
constexpr absl::Duration kDevicePatience = absl::Minutes(1);

using Gather = std::function<absl::Status(absl::Span<const int64_t> ids)>;

// GB/s.
absl::StatusOr<double> RateOf(absl::Span<const int64_t> sample, int64_t row_bytes,
                              const Gather& gather) {
  const auto rows = static_cast<int64_t>(sample.size());
  if (rows == 0) return 0;
  const int64_t piece = std::max(kTimedRows, kTimedBytes / row_bytes);
  // Allocates what later ones use again.
  LH_RETURN_IF_ERROR(gather(sample.subspan(0, std::min(piece, rows))));
  const absl::Time begin = SteadyTime();
  absl::Duration taken;
  int64_t bytes = 0, first = 0;
  for (int i = 0; i < kTimedGathers && taken < kTimed; ++i) {
    // The first piece may lie in caches.
    first = first + piece < rows ? first + piece : 0;
    const absl::Span<const int64_t> ids = sample.subspan(first, std::min(piece, rows - first));
    LH_RETURN_IF_ERROR(gather(ids));
    bytes += static_cast<int64_t>(ids.size()) * row_bytes;
    taken = SteadyTime() - begin;
  }
  return static_cast<double>(bytes) / 1e9 / std::max(1e-9, absl::ToDoubleSeconds(taken));
}

class Opener {
 public:
  Opener(std::shared_ptr<const GraphFolder> folder, absl::Span<const int64_t> sample,
         const FeatureSite& site)
      : folder_(std::move(folder)),
        sample_(sample),
        site_(site),
        team_(std::make_shared<ThreadTeam>(site.threads)) {}

  // With a description of its rate alone.
  absl::StatusOr<Features> Open(FeatureAccess access) {
    Features features{.access = access};
    if (access != FeatureAccess::kMapped && access != FeatureAccess::kDevice) {
      LH_ASSIGN_OR_RETURN(features.rows, Rows());
    }
    double rate = 0;
    if (site_.device.is_cpu()) {
      const std::unique_ptr<FeatureTable> table = TableOf(features);
      std::vector<float> out;
      LH_ASSIGN_OR_RETURN(rate, RateOf(sample_, row_bytes(), [&](absl::Span<const int64_t> ids) {
                            out.resize(ids.size() * folder_->columns());
                            return table->Gather(ids, out.data());
                          }));
    } else {
      LH_RETURN_IF_ERROR(CatchTorch("preparing features", [&]() -> absl::Status {
        LH_ASSIGN_OR_RETURN(features.on_device, OnDevice(features));
        LH_ASSIGN_OR_RETURN(
            rate, RateOf(sample_, row_bytes(), [&](absl::Span<const int64_t> ids) -> absl::Status {
              LH_RETURN_IF_ERROR(features.on_device->Gather(ids).status());
              return AwaitDevice(site_.device, "gathering features", kDevicePatience);
            }));
        return absl::OkStatus();
      }));
    }
    rates_.push_back({access, rate});
    return features;
  }

  // Why a kind of access is not tried. OK: it is.
  absl::Status MayBe(FeatureAccess access) const {
    const int64_t bytes = folder_->nodes() * row_bytes();
    if (access == FeatureAccess::kMapped) return absl::OkStatus();
    if (access == FeatureAccess::kDevice) {
      LH_ASSIGN_OR_RETURN(const int64_t free, site_.kernels->FreeBytes());
      // The model, its state and batches come later.
      return Half(bytes, free, "the device's free memory");
    }
    LH_ASSIGN_OR_RETURN(const int64_t free, AvailableMemory());
    return Half(bytes, free, "the free memory");
  }

  // Of what was opened: `taken` first.
  std::string Describe(FeatureAccess taken) const {
    std::string text;
    std::vector<std::string> others;
    for (const auto& [access, rate] : rates_) {
      if (access == taken)
        text = absl::StrFormat("%s, %.3g GB/s", NameOf(access), rate);
      else
        others.push_back(absl::StrFormat("%s %.3g", NameOf(access), rate));
    }
    if (!others.empty())
      absl::StrAppend(&text, "; measured besides: ", absl::StrJoin(others, ", "));
    return text;
  }
  double last_rate() const { return rates_.back().second; }

 private:
  int64_t row_bytes() const { return folder_->columns() * static_cast<int64_t>(sizeof(float)); }

  static absl::Status Half(int64_t bytes, int64_t free, absl::string_view of) {
    if (bytes <= free / 2) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("features of ", BytesText(bytes),
                                                     " do not fit into half of ", of, " of ",
                                                     BytesText(free)));
  }

  absl::StatusOr<std::shared_ptr<HostRows>> Rows() {
    if (rows_ == nullptr && site_.ranks_of_node > 1) {
      LH_ASSIGN_OR_RETURN(rows_, HostRows::Share(folder_, team_.get()));
    } else if (rows_ == nullptr) {
      LH_ASSIGN_OR_RETURN(rows_, HostRows::Copy(*folder_, team_.get()));
    }
    return rows_;
  }

  std::unique_ptr<FeatureTable> TableOf(const Features& features) const {
    return features.rows == nullptr ? MakeMappedTable(folder_.get(), team_.get())
                                    : MakeHostTable(features.rows, team_.get());
  }

  absl::StatusOr<std::unique_ptr<DeviceFeatures>> OnDevice(Features& features) {
    switch (features.access) {
      case FeatureAccess::kDevice:
        return MakeDeviceTable(*folder_, site_.kernels, site_.device);
      case FeatureAccess::kZeroCopy: {
        LH_ASSIGN_OR_RETURN(std::unique_ptr<KernelTable> table, Registered(features));
        return MakeKernelFeatures(std::move(table), {}, site_.device);
      }
      default:
        return MakeCopiedFeatures(TableOf(features), team_, site_.device);
    }
  }

  // Not each device registers a mapping that may only be read. Then each rank has a copy, where all
  // of them fit.
  absl::StatusOr<std::unique_ptr<KernelTable>> Registered(Features& features) {
    absl::StatusOr<std::unique_ptr<KernelTable>> table =
        KernelTable::ZeroCopy(features.rows, site_.kernels);
    if (table.ok() || !features.rows->shared()) return table;
    const absl::StatusOr<int64_t> free = AvailableMemory();
    if (!free.ok() || !Half(features.rows->bytes() * site_.ranks_of_node, *free, "").ok())
      return table;
    LH_ASSIGN_OR_RETURN(features.rows, HostRows::Copy(*folder_, team_.get()));
    return KernelTable::ZeroCopy(features.rows, site_.kernels);
  }

  const std::shared_ptr<const GraphFolder> folder_;
  const absl::Span<const int64_t> sample_;
  const FeatureSite site_;
  const std::shared_ptr<ThreadTeam> team_;
  std::shared_ptr<HostRows> rows_;
  std::vector<std::pair<FeatureAccess, double>> rates_;
};

absl::StatusOr<Features> OpenFastest(Opener& opener, bool on_device) {
  Features best;
  double best_rate = -1;
  std::vector<std::string> not_tried;
  for (const FeatureAccess access : {FeatureAccess::kDevice, FeatureAccess::kZeroCopy,
                                     FeatureAccess::kHost, FeatureAccess::kMapped}) {
    if (!on_device && (access == FeatureAccess::kDevice || access == FeatureAccess::kZeroCopy))
      continue;
    const absl::Status possible = opener.MayBe(access);
    absl::StatusOr<Features> opened =
        possible.ok() ? opener.Open(access) : absl::StatusOr<Features>(possible);
    if (!opened.ok() && access == FeatureAccess::kMapped) return opened;
    if (!opened.ok()) {
      not_tried.push_back(absl::StrCat("not ", NameOf(access), ": ", opened.status().message()));
      continue;
    }
    if (opener.last_rate() <= best_rate) continue;
    best_rate = opener.last_rate();
    best = *std::move(opened);
  }
  best.description = opener.Describe(best.access);
  for (const std::string& reason : not_tried) absl::StrAppend(&best.description, "; ", reason);
  return best;
}

}  // namespace

absl::StatusOr<Features> OpenFeatures(const FeatureOptions& options,
                                      std::shared_ptr<const GraphFolder> folder,
                                      absl::Span<const int64_t> sample, const FeatureSite& site) {
  Opener opener(folder, sample, site);
  Features features;
  if (!options.access.has_value()) {
    LH_ASSIGN_OR_RETURN(features, OpenFastest(opener, !site.device.is_cpu()));
  } else {
    absl::StatusOr<Features> opened = opener.Open(*options.access);
    std::string instead;
    // That host memory cannot be registered says nothing about whether it can be read.
    if (*options.access == FeatureAccess::kZeroCopy &&
        absl::IsFailedPrecondition(opened.status())) {
      instead = absl::StrCat("features cannot be read by zero_copy here, host is used instead: ",
                             opened.status().message());
      opened = opener.Open(FeatureAccess::kHost);
    }
    LH_RETURN_IF_ERROR(opened.status());
    features = *std::move(opened);
    features.description = opener.Describe(features.access);
    features.instead = std::move(instead);
  }
  if (options.cache_bytes > 0 && features.access != FeatureAccess::kDevice &&
      features.on_device != nullptr) {
    LH_ASSIGN_OR_RETURN(features.on_device,
                        MakeCachedFeatures(*folder, options.cache_bytes,
                                           std::move(features.on_device), site.device));
    absl::StrAppend(&features.description, "; up to ", BytesText(options.cache_bytes),
                    " of the rows that most edges read are kept on the device");
  }
  return features;
}

}  // namespace longhaul
