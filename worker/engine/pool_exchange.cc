#include "worker/engine/pool_exchange.h"

#include <algorithm>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "c10/core/Stream.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

template <typename T>
absl::Span<T> SpanOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

absl::Span<std::byte> BytesOf(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Brings back what the communicator left in the staging copy, if there is one.
void Unstage(const at::Tensor& staged, const at::Tensor& tensor) {
  if (staged.data_ptr() != tensor.data_ptr()) tensor.copy_(staged);
}

}  // namespace

PoolExchange::PoolExchange(const PoolLink& link, at::Device device)
    : link_(link), stage_(link.on_device ? device : at::Device(at::kCPU)) {}

CallOptions PoolExchange::Options() const {
  CallOptions options{.timeout = link_.timeout};
  if (!stage_.is_cpu()) {
    options.stream = c10::impl::VirtualGuardImpl(stage_.type()).getStream(stage_).native_handle();
  }
  return options;
}

absl::Status PoolExchange::AllReduce(const at::Tensor& flat) {
  if (ranks() == 1) return absl::OkStatus();
  const at::Tensor staged = Stage(flat);
  LH_RETURN_IF_ERROR(link_.communicator->AllReduceSum(SpanOf<float>(staged), Options()));
  Unstage(staged, flat);
  return absl::OkStatus();
}

absl::Status PoolExchange::ReduceScatter(const at::Tensor& flat,
                                         absl::Span<const ElementRange> owners) {
  if (ranks() == 1) return absl::OkStatus();
  const at::Tensor staged = Stage(flat);
  std::vector<int64_t> counts;
  for (const ElementRange& range : owners) counts.push_back(range.count);
  const absl::Span<float> all = SpanOf<float>(staged);
  const absl::Span<float> own = all.subspan(owners[rank()].first, owners[rank()].count);
  LH_RETURN_IF_ERROR(link_.communicator->ReduceScatterSum(all, counts, own, Options()));
  Unstage(staged, flat);
  return absl::OkStatus();
}

absl::Status PoolExchange::AllGather(const at::Tensor& flat,
                                     absl::Span<const ElementRange> owners) {
  if (ranks() == 1) return absl::OkStatus();
  const at::Tensor staged = Stage(flat);
  constexpr int64_t kSize = sizeof(float);
  std::vector<Part> parts;
  for (const ElementRange& range : owners)
    parts.push_back({range.first * kSize, range.count * kSize});
  const absl::Span<std::byte> all = BytesOf(staged);
  const absl::Span<const std::byte> own = all.subspan(parts[rank()].offset, parts[rank()].size);
  LH_RETURN_IF_ERROR(link_.communicator->AllGather(own, parts, all, Options()));
  Unstage(staged, flat);
  return absl::OkStatus();
}

absl::Status PoolExchange::Sum(absl::Span<double> values) {
  if (ranks() == 1) return absl::OkStatus();
  const at::Tensor host =
      at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble);
  const at::Tensor staged = Stage(host);
  LH_RETURN_IF_ERROR(link_.communicator->AllReduceSum(SpanOf<double>(staged), Options()));
  Unstage(staged, host);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> PoolExchange::Gather(
    absl::Span<const int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor all = at::empty({ranks(), count}, at::kLong);
  std::copy(values.begin(), values.end(), SpanOf<int64_t>(all).begin() + rank() * count);
  if (ranks() > 1 && count > 0) {
    const at::Tensor staged = Stage(all);
    const int64_t size = count * static_cast<int64_t>(sizeof(int64_t));
    std::vector<Part> parts;
    for (int r = 0; r < ranks(); ++r) parts.push_back({r * size, size});
    const absl::Span<std::byte> bytes = BytesOf(staged);
    LH_RETURN_IF_ERROR(
        link_.communicator->AllGather(bytes.subspan(rank() * size, size), parts, bytes, Options()));
    Unstage(staged, all);
  }
  std::vector<std::vector<int64_t>> result;
  for (int r = 0; r < ranks(); ++r) {
    const absl::Span<const int64_t> row = SpanOf<int64_t>(all).subspan(r * count, count);
    result.emplace_back(row.begin(), row.end());
  }
  return result;
}

}  // namespace longhaul
