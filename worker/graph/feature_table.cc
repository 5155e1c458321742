#include "worker/graph/feature_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bytes_text.h"
#include "common/base/status_macros.h"
#include "worker/kernels/gather_rows.h"

namespace longhaul {
namespace {

class MappedTable : public FeatureTable {
 public:
  MappedTable(const GraphFolder* folder, ThreadTeam* team)
      : FeatureTable(folder->nodes(), folder->columns()), folder_(folder), team_(team) {}
  FeatureAccess access() const override { return FeatureAccess::kMapped; }

 private:
  absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out, void*) override {
    GatherRows(reinterpret_cast<const uint8_t*>(folder_->features().data()), row_bytes(), ids,
               reinterpret_cast<uint8_t*>(out), team_);
    return folder_->Check();
  }

  const GraphFolder* const folder_;
  ThreadTeam* const team_;
};

class HostTable : public FeatureTable {
 public:
  HostTable(std::shared_ptr<HostRows> host, ThreadTeam* team)
      : FeatureTable(host->rows(), host->columns()), host_(std::move(host)), team_(team) {}
  FeatureAccess access() const override { return FeatureAccess::kHost; }

 private:
  absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out, void*) override {
    GatherRows(reinterpret_cast<const uint8_t*>(host_->data()), row_bytes(), ids,
               reinterpret_cast<uint8_t*>(out), team_);
    return absl::OkStatus();
  }

  const std::shared_ptr<HostRows> host_;
  ThreadTeam* const team_;
};

// Host memory that kernels of the device reach.
class Registered {
 public:
  Registered() = default;
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    if (memory_ != nullptr) kernels_->Unregister(memory_).IgnoreError();
  }
  absl::Status Register(const GatherKernels* kernels, void* memory, int64_t bytes) {
    LH_ASSIGN_OR_RETURN(address_, kernels->Register(memory, bytes, false));
    kernels_ = kernels;
    memory_ = memory;
    return absl::OkStatus();
  }
  void* address() const { return address_; }

 private:
  const GatherKernels* kernels_ = nullptr;
  void *memory_ = nullptr, *address_ = nullptr;
};

// Both kinds that a kernel gathers.
class KernelTable : public FeatureTable {
 public:
  KernelTable(FeatureAccess access, int64_t rows, int64_t columns, const GatherKernels* kernels,
              int64_t ids_max)
      : FeatureTable(rows, columns),
        access_(access),
        kernels_(kernels),
        ids_max_(ids_max),
        ids_(2 * ids_max),
        places_(2 * ids_max) {}
  FeatureAccess access() const override { return access_; }

  absl::Status RegisterBuffers() {
    if (ids_max_ == 0) return absl::OkStatus();
    LH_RETURN_IF_ERROR(registered_ids_.Register(
        kernels_, ids_.data(), static_cast<int64_t>(ids_.size() * sizeof(int64_t))));
    return registered_places_.Register(kernels_, places_.data(),
                                       static_cast<int64_t>(places_.size() * sizeof(int32_t)));
  }
  absl::Status RegisterRows(std::shared_ptr<HostRows> host) {
    LH_RETURN_IF_ERROR(registered_rows_.Register(kernels_, host->data(), host->bytes()));
    host_ = std::move(host);
    table_ = registered_rows_.address();
    return absl::OkStatus();
  }
  void SetTable(const float* device) { table_ = device; }

 private:
  // Ascending ids share lines and pages of the table.
  absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out, void* stream) override {
    const auto count = static_cast<int64_t>(ids.size());
    if (count > ids_max_) {
      return absl::InvalidArgumentError(
          absl::StrCat("a gather of ", count, " rows; the buffer is for ", ids_max_));
    }
    // The other half may still be read.
    second_ = !second_;
    const int64_t begin = second_ ? ids_max_ : 0;
    int64_t* const sorted_ids = ids_.data() + begin;
    int32_t* const places = places_.data() + begin;
    const bool ascending = std::is_sorted(ids.begin(), ids.end());
    if (ascending) {
      std::copy(ids.begin(), ids.end(), sorted_ids);
    } else {
      std::iota(places, places + count, 0);
      std::stable_sort(places, places + count,
                       [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
      for (int64_t i = 0; i < count; ++i) sorted_ids[i] = ids[places[i]];
    }
    return kernels_->Gather(
        {.table = static_cast<const uint8_t*>(table_),
         .row_bytes = row_bytes(),
         .ids = static_cast<const int64_t*>(registered_ids_.address()) + begin,
         .places = ascending ? nullptr
                             : static_cast<const int32_t*>(registered_places_.address()) + begin,
         .count = count,
         .out = reinterpret_cast<uint8_t*>(out)},
        stream);
  }

  const FeatureAccess access_;
  const GatherKernels* const kernels_;
  const int64_t ids_max_;
  // Two halves, in turn.
  std::vector<int64_t> ids_;
  std::vector<int32_t> places_;
  bool second_ = false;
  // They end before what they register.
  std::shared_ptr<HostRows> host_;
  Registered registered_rows_, registered_ids_, registered_places_;
  const void* table_ = nullptr;
};

}  // namespace

absl::string_view NameOf(FeatureAccess access) {
  switch (access) {
    case FeatureAccess::kDevice:
      return "device";
    case FeatureAccess::kHost:
      return "host";
    case FeatureAccess::kZeroCopy:
      return "zero_copy";
    default:
      return "mapped";
  }
}

absl::Status FeatureTable::Gather(absl::Span<const int64_t> ids, float* out, void* stream) {
  uint64_t largest = 0;
  for (const int64_t id : ids) largest = std::max(largest, static_cast<uint64_t>(id));
  if (!ids.empty() && largest >= static_cast<uint64_t>(rows_)) {
    const auto at = std::find_if(ids.begin(), ids.end(), [this](int64_t id) {
      return static_cast<uint64_t>(id) >= static_cast<uint64_t>(rows_);
    });
    return absl::InvalidArgumentError(
        absl::StrCat("id ", at - ids.begin(), " of a gather is not one of ", rows_, " rows"));
  }
  if (ids.empty()) return absl::OkStatus();
  return GatherInRange(ids, out, stream);
}

absl::StatusOr<std::shared_ptr<HostRows>> HostRows::Copy(const GraphFolder& folder,
                                                         ThreadTeam* team) {
  const absl::Span<const float> features = folder.features();
  const size_t bytes = features.size() * sizeof(float);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for features of ", BytesText(static_cast<int64_t>(bytes))));
  }
  // Only a wish.
  madvise(memory, bytes, MADV_HUGEPAGE);
  const std::shared_ptr<HostRows> rows(
      new HostRows(static_cast<float*>(memory), folder.nodes(), folder.columns()));
  ForParts(team, static_cast<int64_t>(features.size()), 1 << 16, [&](int64_t first, int64_t end) {
    std::memcpy(rows->data() + first, features.data() + first, (end - first) * sizeof(float));
  });
  LH_RETURN_IF_ERROR(folder.Check());
  return rows;
}

HostRows::~HostRows() { munmap(data_, static_cast<size_t>(bytes())); }

std::unique_ptr<FeatureTable> MakeMappedTable(const GraphFolder* folder, ThreadTeam* team) {
  return std::make_unique<MappedTable>(folder, team);
}

std::unique_ptr<FeatureTable> MakeHostTable(std::shared_ptr<HostRows> rows, ThreadTeam* team) {
  return std::make_unique<HostTable>(std::move(rows), team);
}

absl::StatusOr<std::unique_ptr<FeatureTable>> MakeZeroCopyTable(std::shared_ptr<HostRows> rows,
                                                                const GatherKernels* kernels,
                                                                int64_t ids_max) {
  auto table = std::make_unique<KernelTable>(FeatureAccess::kZeroCopy, rows->rows(),
                                             rows->columns(), kernels, ids_max);
  LH_RETURN_IF_ERROR(table->RegisterBuffers());
  LH_RETURN_IF_ERROR(table->RegisterRows(std::move(rows)));
  return table;
}

absl::StatusOr<std::unique_ptr<FeatureTable>> MakeDeviceTable(const float* device, int64_t rows,
                                                              int64_t columns,
                                                              const GatherKernels* kernels,
                                                              int64_t ids_max) {
  auto table =
      std::make_unique<KernelTable>(FeatureAccess::kDevice, rows, columns, kernels, ids_max);
  LH_RETURN_IF_ERROR(table->RegisterBuffers());
  table->SetTable(device);
  return table;
}

}  // namespace longhaul
