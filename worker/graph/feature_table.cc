#include "worker/graph/feature_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
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
  absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out) override {
    GatherRows(reinterpret_cast<const uint8_t*>(folder_->features().data()), row_bytes(), ids,
               reinterpret_cast<uint8_t*>(out), team_);
    return folder_->Check();
  }

  const GraphFolder* const folder_;
  ThreadTeam* const team_;
};

class HostTable : public FeatureTable {
 public:
  HostTable(std::shared_ptr<const HostRows> host, ThreadTeam* team)
      : FeatureTable(host->rows(), host->columns()), host_(std::move(host)), team_(team) {}
  FeatureAccess access() const override { return FeatureAccess::kHost; }

 private:
  absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out) override {
    GatherRows(reinterpret_cast<const uint8_t*>(host_->data()), row_bytes(), ids,
               reinterpret_cast<uint8_t*>(out), team_);
    return absl::OkStatus();
  }

  const std::shared_ptr<const HostRows> host_;
  ThreadTeam* const team_;
};

absl::Status CheckIds(absl::Span<const int64_t> ids, int64_t rows) {
  uint64_t largest = 0;
  for (const int64_t id : ids) largest = std::max(largest, static_cast<uint64_t>(id));
  if (ids.empty() || largest < static_cast<uint64_t>(rows)) return absl::OkStatus();
  const auto at = std::find_if(ids.begin(), ids.end(), [rows](int64_t id) {
    return static_cast<uint64_t>(id) >= static_cast<uint64_t>(rows);
  });
  return absl::InvalidArgumentError(
      absl::StrCat("id ", at - ids.begin(), " of a gather is not one of ", rows, " rows"));
}

// Of a page of the system.
constexpr int64_t kPageFloats = 4096 / sizeof(float);

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

absl::Status FeatureTable::Gather(absl::Span<const int64_t> ids, float* out) {
  LH_RETURN_IF_ERROR(CheckIds(ids, rows_));
  return ids.empty() ? absl::OkStatus() : GatherInRange(ids, out);
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
  auto* const copy = static_cast<float*>(memory);
  const std::shared_ptr<HostRows> rows(new HostRows(copy, folder.nodes(), folder.columns()));
  ForParts(team, static_cast<int64_t>(features.size()), 1 << 16, [&](int64_t first, int64_t end) {
    std::memcpy(copy + first, features.data() + first, (end - first) * sizeof(float));
  });
  LH_RETURN_IF_ERROR(folder.Check());
  return rows;
}

absl::StatusOr<std::shared_ptr<HostRows>> HostRows::Share(std::shared_ptr<const GraphFolder> folder,
                                                          ThreadTeam* team) {
  const absl::Span<const float> features = folder->features();
  const std::shared_ptr<HostRows> rows(
      new HostRows(features.data(), folder->nodes(), folder->columns()));
  // Reading in order is several times faster than the pages that gathers would ask for.
  ForParts(team, static_cast<int64_t>(features.size()), 1 << 16, [&](int64_t first, int64_t end) {
    const auto touch = [&](int64_t at) { *const_cast<const volatile float*>(&features[at]); };
    for (int64_t at = first; at < end; at += kPageFloats) touch(at);
    touch(end - 1);
  });
  LH_RETURN_IF_ERROR(folder->Check());
  rows->folder_ = std::move(folder);
  return rows;
}

HostRows::~HostRows() {
  if (!shared()) munmap(const_cast<float*>(data_), static_cast<size_t>(bytes()));
}

std::unique_ptr<FeatureTable> MakeMappedTable(const GraphFolder* folder, ThreadTeam* team) {
  return std::make_unique<MappedTable>(folder, team);
}

std::unique_ptr<FeatureTable> MakeHostTable(std::shared_ptr<const HostRows> rows,
                                            ThreadTeam* team) {
  return std::make_unique<HostTable>(std::move(rows), team);
}

absl::StatusOr<std::unique_ptr<KernelTable>> KernelTable::ZeroCopy(
    std::shared_ptr<const HostRows> rows, const GatherKernels* kernels) {
  LH_ASSIGN_OR_RETURN(const void* address, kernels->Register(rows->data(), rows->bytes()));
  std::unique_ptr<KernelTable> table(
      new KernelTable(address, rows->rows(), rows->columns(), kernels));
  table->host_ = std::move(rows);
  return table;
}

std::unique_ptr<KernelTable> KernelTable::OnDevice(const float* table, int64_t rows,
                                                   int64_t columns, const GatherKernels* kernels) {
  return std::unique_ptr<KernelTable>(new KernelTable(table, rows, columns, kernels));
}

KernelTable::~KernelTable() {
  if (host_ != nullptr) kernels_->Unregister(host_->data()).IgnoreError();
}

absl::Status KernelTable::Gather(const int64_t* ids, const int32_t* places, int64_t count,
                                 float* out, void* stream) const {
  GatherJob job{.table = static_cast<const uint8_t*>(table_),
                .row_bytes = columns_ * static_cast<int64_t>(sizeof(float)),
                .ids = ids,
                .places = places,
                .count = count,
                .out = reinterpret_cast<uint8_t*>(out)};
  // A link is full with few threads, a device's memory with many.
  if (access() == FeatureAccess::kDevice) job.threads = GatherJob::kThreadsOfDevice;
  return kernels_->Gather(job, stream);
}

absl::StatusOr<RowOrder> AscendingRows(absl::Span<const int64_t> ids, int64_t rows) {
  LH_RETURN_IF_ERROR(CheckIds(ids, rows));
  if (ids.size() > std::numeric_limits<int32_t>::max())
    return absl::InvalidArgumentError(absl::StrCat("a gather of ", ids.size(), " rows"));
  RowOrder order{.ids = {ids.begin(), ids.end()}};
  if (std::is_sorted(ids.begin(), ids.end())) return order;
  // By digits, the lowest first: a batch has hundreds of thousands of ids, and a sort that compares
  // them would take longer than the device takes to gather them.
  constexpr int kDigitBits = 11;
  constexpr uint64_t kDigits = 1 << kDigitBits;
  order.places.resize(ids.size());
  std::iota(order.places.begin(), order.places.end(), 0);
  std::vector<int64_t> ids_there(ids.size());
  std::vector<int32_t> places_there(ids.size());
  for (int shift = 0; static_cast<uint64_t>(rows - 1) >> shift > 0; shift += kDigitBits) {
    std::array<size_t, kDigits + 1> starts = {};
    const auto digit = [shift](int64_t id) {
      return static_cast<uint64_t>(id) >> shift & (kDigits - 1);
    };
    for (const int64_t id : order.ids) ++starts[digit(id) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (size_t i = 0; i < order.ids.size(); ++i) {
      const size_t to = starts[digit(order.ids[i])]++;
      ids_there[to] = order.ids[i];
      places_there[to] = order.places[i];
    }
    order.ids.swap(ids_there);
    order.places.swap(places_there);
  }
  return order;
}

}  // namespace longhaul
