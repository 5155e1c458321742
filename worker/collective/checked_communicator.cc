#include "worker/collective/checked_communicator.h"

#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "worker/collective/call_checks.h"

namespace longhaul {
namespace {

// These codes say the same of every implementation (communicator.h).
absl::Status MarkIfOfPeers(absl::Status status) {
  const bool of_peers =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  return of_peers ? MarkPeerFault(std::move(status)) : status;
}

}  // namespace

template <typename Operation>
absl::Status CheckedCommunicator::Watched(CallOptions options, Operation&& operation) {
  if (watch_ != nullptr) options.timeout = watch_->BeginCollective();
  absl::Status status = operation(options);
  if (watch_ != nullptr) watch_->EndCollective();
  return MarkIfOfPeers(std::move(status));
}

template <typename T>
absl::Status CheckedCommunicator::AllReduce(absl::string_view name, absl::Span<T> data,
                                            const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout(name, options));
  const std::vector<Part> parts = EvenParts(static_cast<int64_t>(data.size()), size_);
  LH_RETURN_IF_ERROR(
      Watched(options, [&](const auto& o) { return DoAllReduce(name, data, parts, o); }));
  traffic_.AddAllReduce(data.size() * sizeof(T), parts[rank_].size * sizeof(T), size_);
  return absl::OkStatus();
}

absl::Status CheckedCommunicator::AllReduceSum(absl::Span<float> data, const CallOptions& options) {
  return AllReduce("all-reduce", data, options);
}

absl::Status CheckedCommunicator::AllReduceSum(absl::Span<double> data,
                                               const CallOptions& options) {
  return AllReduce("all-reduce of doubles", data, options);
}

absl::Status CheckedCommunicator::ReduceScatterSum(absl::Span<const float> input,
                                                   absl::Span<const int64_t> counts,
                                                   absl::Span<float> output,
                                                   const CallOptions& options) {
  std::vector<Part> parts;
  LH_RETURN_IF_ERROR(
      CheckReduceScatter(*this, input.size(), counts, output.size(), options, &parts));
  LH_RETURN_IF_ERROR(
      Watched(options, [&](const auto& o) { return DoReduceScatter(input, parts, output, o); }));
  traffic_.AddReduceScatter(input.size() * sizeof(float), output.size() * sizeof(float), size_);
  return absl::OkStatus();
}

absl::Status CheckedCommunicator::AllGather(absl::Span<const std::byte> input,
                                            absl::Span<const Part> parts,
                                            absl::Span<std::byte> output,
                                            const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckAllGather(*this, input.size(), parts, output.size(), options));
  LH_RETURN_IF_ERROR(
      Watched(options, [&](const auto& o) { return DoAllGather(input, parts, output, o); }));
  int64_t total = 0;
  for (const Part& part : parts) total += part.size;
  traffic_.AddAllGather(total, input.size(), size_);
  return absl::OkStatus();
}

absl::Status CheckedCommunicator::Broadcast(absl::Span<std::byte> data, int root,
                                            const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckBroadcast(*this, root, options));
  LH_RETURN_IF_ERROR(Watched(options, [&](const auto& o) { return DoBroadcast(data, root, o); }));
  traffic_.AddBroadcast(data.size(), rank_ == root, size_);
  return absl::OkStatus();
}

absl::Status CheckedCommunicator::AllToAll(absl::Span<const std::byte> input,
                                           absl::Span<const Part> send_parts,
                                           absl::Span<std::byte> output,
                                           absl::Span<const Part> receive_parts,
                                           const CallOptions& options) {
  LH_RETURN_IF_ERROR(
      CheckAllToAll(*this, input.size(), send_parts, output.size(), receive_parts, options));
  LH_RETURN_IF_ERROR(Watched(options, [&](const auto& o) {
    return DoAllToAll(input, send_parts, output, receive_parts, o);
  }));
  traffic_.AddAllToAll(send_parts, receive_parts, rank_);
  return absl::OkStatus();
}

absl::Status CheckedCommunicator::Barrier(const CallOptions& options) {
  LH_RETURN_IF_ERROR(CheckTimeout("barrier", options));
  LH_RETURN_IF_ERROR(Watched(options, [&](const auto& o) { return DoBarrier(o); }));
  CountOperation();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> CheckedCommunicator::Split(
    absl::Span<const int> members, const CallOptions& options) {
  LH_ASSIGN_OR_RETURN(const int rank, CheckSplit(*this, members, options));
  std::unique_ptr<Communicator> group;
  LH_RETURN_IF_ERROR(Watched(options, [&](const auto& o) {
    // What a split does by other operations is part of it.
    CollectiveWatch* const watch = std::exchange(watch_, nullptr);
    traffic_.SetPaused(true);
    auto made = DoSplit(rank, members, o);
    traffic_.SetPaused(false);
    watch_ = watch;
    if (made.ok()) group = *std::move(made);
    return made.status();
  }));
  group->SetWatch(watch_);
  CountOperation();
  return group;
}

}  // namespace longhaul
