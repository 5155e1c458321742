#include "worker/family/graph/device_features.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/tensor.h"
#include "common/base/status_macros.h"
#include "worker/engine/device.h"
#include "worker/model/device_stream.h"

namespace longhaul {
namespace {

// Rows on their way to the device at a time, where all or many are brought there.
constexpr int64_t kPieceBytes = int64_t{64} << 20;

at::Tensor EmptyRows(int64_t rows, int64_t columns, c10::Device device) {
  return at::empty({rows, columns}, c10::TensorOptions(at::kFloat).device(device));
}

template <typename T>
at::Tensor OnDevice(const std::vector<T>& values, at::ScalarType type, c10::Device device) {
  return CopyToDevice(
      at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                    c10::TensorOptions(type)),
      device);
}

class CopiedFeatures : public DeviceFeatures {
 public:
  CopiedFeatures(std::unique_ptr<FeatureTable> table, std::shared_ptr<ThreadTeam> team,
                 c10::Device device)
      : team_(std::move(team)), table_(std::move(table)), device_(device) {}
  FeatureAccess access() const override { return table_->access(); }

  absl::StatusOr<at::Tensor> Gather(absl::Span<const int64_t> ids) override {
    // torch gives pinned memory again once the copies from it are done.
    at::Tensor rows = at::empty({static_cast<int64_t>(ids.size()), table_->columns()},
                                c10::TensorOptions(at::kFloat).pinned_memory(device_.is_cuda()));
    LH_RETURN_IF_ERROR(table_->Gather(ids, rows.mutable_data_ptr<float>()));
    return rows.to(rows.options().pinned_memory(false).device(device_), /*non_blocking=*/true);
  }

 private:
  const std::shared_ptr<ThreadTeam> team_;
  const std::unique_ptr<FeatureTable> table_;
  const c10::Device device_;
};

class KernelFeatures : public DeviceFeatures {
 public:
  KernelFeatures(std::unique_ptr<KernelTable> table, at::Tensor rows, c10::Device device)
      : rows_(std::move(rows)), table_(std::move(table)), device_(device) {}
  FeatureAccess access() const override { return table_->access(); }

  absl::StatusOr<at::Tensor> Gather(absl::Span<const int64_t> ids) override {
    LH_ASSIGN_OR_RETURN(const RowOrder order, AscendingRows(ids, table_->rows()));
    at::Tensor out = EmptyRows(static_cast<int64_t>(ids.size()), table_->columns(), device_);
    if (ids.empty()) return out;
    const at::Tensor sorted = OnDevice(order.ids, at::kLong, device_);
    at::Tensor places;
    if (!order.places.empty()) places = OnDevice(order.places, at::kInt, device_);
    LH_RETURN_IF_ERROR(table_->Gather(sorted.const_data_ptr<int64_t>(),
                                      places.defined() ? places.const_data_ptr<int32_t>() : nullptr,
                                      out.size(0), out.mutable_data_ptr<float>(),
                                      CurrentStream(device_)));
    return out;
  }

 private:
  const at::Tensor rows_;
  const std::unique_ptr<KernelTable> table_;
  const c10::Device device_;
};

// The rows of the graph, in `ids`' order or, if it is empty, all of them; in pieces.
absl::StatusOr<at::Tensor> RowsOnDevice(const GraphFolder& folder, absl::Span<const int64_t> ids,
                                        int64_t count, c10::Device device) {
  const int64_t columns = folder.columns();
  at::Tensor rows = EmptyRows(count, columns, device);
  const auto table = MakeMappedTable(&folder, nullptr);
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / (4 * columns));
  for (int64_t first = 0; first < count; first += piece) {
    const int64_t some = std::min(piece, count - first);
    at::Tensor host;
    if (ids.empty()) {
      host = at::from_blob(const_cast<float*>(&folder.features()[first * columns]), {some, columns},
                           c10::TensorOptions(at::kFloat));
    } else {
      host = at::empty({some, columns}, c10::TensorOptions(at::kFloat));
      LH_RETURN_IF_ERROR(table->Gather(ids.subspan(first, some), host.mutable_data_ptr<float>()));
    }
    rows.narrow(0, first, some).copy_(host);
  }
  LH_RETURN_IF_ERROR(folder.Check());
  return rows;
}

class CachedFeatures : public DeviceFeatures {
 public:
  CachedFeatures(at::Tensor hot, std::vector<int32_t> slots, std::unique_ptr<DeviceFeatures> others,
                 c10::Device device)
      : hot_(std::move(hot)),
        slots_(std::move(slots)),
        others_(std::move(others)),
        device_(device) {}
  FeatureAccess access() const override { return others_->access(); }

  absl::StatusOr<at::Tensor> Gather(absl::Span<const int64_t> ids) override {
    std::vector<int64_t> slots, there, others, other_places;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<uint64_t>(ids[i]);
      // An id that is no row is refused by the table.
      const int32_t slot = id < slots_.size() ? slots_[id] : kNone;
      if (slot == kNone) {
        others.push_back(ids[i]);
        other_places.push_back(static_cast<int64_t>(i));
      } else {
        slots.push_back(slot);
        there.push_back(static_cast<int64_t>(i));
      }
    }
    LH_ASSIGN_OR_RETURN(at::Tensor cold, others_->Gather(others));
    if (slots.empty()) return cold;
    at::Tensor out = EmptyRows(static_cast<int64_t>(ids.size()), hot_.size(1), device_);
    out.index_copy_(0, OnDevice(there, at::kLong, device_),
                    hot_.index_select(0, OnDevice(slots, at::kLong, device_)));
    if (!others.empty()) out.index_copy_(0, OnDevice(other_places, at::kLong, device_), cold);
    return out;
  }

  static constexpr int32_t kNone = -1;

 private:
  const at::Tensor hot_;
  // Of each row, its place in hot_.
  const std::vector<int32_t> slots_;
  const std::unique_ptr<DeviceFeatures> others_;
  const c10::Device device_;
};

// How many edges read each row. Sources that are no nodes, of a graph that was changed, do not
// count: Check tells of them.
std::vector<uint32_t> ReadersOf(const GraphEdges& edges) {
  std::vector<uint32_t> readers(edges.nodes);
  const auto count = [&](const auto* sources) {
    for (int64_t i = 0; i < edges.edges(); ++i) {
      const auto source = static_cast<uint64_t>(sources[i]);
      if (source < readers.size() && readers[source] < UINT32_MAX) ++readers[source];
    }
  };
  edges.sources != nullptr ? count(edges.sources) : count(edges.wide_sources);
  return readers;
}

}  // namespace

std::unique_ptr<DeviceFeatures> MakeCopiedFeatures(std::unique_ptr<FeatureTable> table,
                                                   std::shared_ptr<ThreadTeam> team,
                                                   c10::Device device) {
  return std::make_unique<CopiedFeatures>(std::move(table), std::move(team), device);
}

std::unique_ptr<DeviceFeatures> MakeKernelFeatures(std::unique_ptr<KernelTable> table,
                                                   at::Tensor rows, c10::Device device) {
  return std::make_unique<KernelFeatures>(std::move(table), std::move(rows), device);
}

absl::StatusOr<std::unique_ptr<DeviceFeatures>> MakeDeviceTable(const GraphFolder& folder,
                                                                const GatherKernels* kernels,
                                                                c10::Device device) {
  LH_ASSIGN_OR_RETURN(const at::Tensor rows, RowsOnDevice(folder, {}, folder.nodes(), device));
  return MakeKernelFeatures(KernelTable::OnDevice(rows.const_data_ptr<float>(), folder.nodes(),
                                                  folder.columns(), kernels),
                            rows, device);
}

absl::StatusOr<std::unique_ptr<DeviceFeatures>> MakeCachedFeatures(
    const GraphFolder& folder, int64_t bytes, std::unique_ptr<DeviceFeatures> others,
    c10::Device device) {
  const int64_t row_bytes = 4 * folder.columns();
  const int64_t kept = std::min<int64_t>({folder.nodes(), bytes / row_bytes, INT32_MAX});
  const std::vector<uint32_t> readers = ReadersOf(folder.edges());
  std::vector<int64_t> hot(folder.nodes());
  std::iota(hot.begin(), hot.end(), 0);
  std::nth_element(hot.begin(), hot.begin() + kept, hot.end(), [&](int64_t a, int64_t b) {
    return readers[a] != readers[b] ? readers[a] > readers[b] : a < b;
  });
  hot.resize(kept);
  // In the order of the file.
  std::sort(hot.begin(), hot.end());
  std::vector<int32_t> slots(folder.nodes(), CachedFeatures::kNone);
  for (int64_t i = 0; i < kept; ++i) slots[hot[i]] = static_cast<int32_t>(i);
  if (kept == 0) return others;
  LH_ASSIGN_OR_RETURN(at::Tensor rows, RowsOnDevice(folder, hot, kept, device));
  return std::make_unique<CachedFeatures>(std::move(rows), std::move(slots), std::move(others),
                                          device);
}

}  // namespace longhaul
