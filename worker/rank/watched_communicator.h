// A communicator that tells the rank's monitor when a collective runs, and uses the monitor's
// timeout for it. Threads, blocking and errors: those of the communicator inside.
#pragma once

#include <memory>
#include <utility>

#include "worker/collective/communicator.h"
#include "worker/rank/rank_monitor.h"

namespace longhaul {

class WatchedCommunicator : public Communicator {
 public:
  // Both outlive the object.
  WatchedCommunicator(Communicator* inner, RankMonitor* monitor)
      : inner_(inner), monitor_(monitor) {}
  WatchedCommunicator(std::unique_ptr<Communicator> inner, RankMonitor* monitor)
      : owned_(std::move(inner)), inner_(owned_.get()), monitor_(monitor) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) override {
    return Watched(options, [&](const auto& o) { return inner_->AllReduceSum(data, o); });
  }
  absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) override {
    return Watched(options, [&](const auto& o) { return inner_->AllReduceSum(data, o); });
  }
  absl::Status ReduceScatterSum(absl::Span<const float> input, absl::Span<const int64_t> counts,
                                absl::Span<float> output, const CallOptions& options) override {
    return Watched(
        options, [&](const auto& o) { return inner_->ReduceScatterSum(input, counts, output, o); });
  }
  absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                         absl::Span<std::byte> output, const CallOptions& options) override {
    return Watched(options,
                   [&](const auto& o) { return inner_->AllGather(input, parts, output, o); });
  }
  absl::Status Broadcast(absl::Span<std::byte> data, int root,
                         const CallOptions& options) override {
    return Watched(options, [&](const auto& o) { return inner_->Broadcast(data, root, o); });
  }
  absl::Status AllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                        absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                        const CallOptions& options) override {
    return Watched(options, [&](const auto& o) {
      return inner_->AllToAll(input, send_parts, output, receive_parts, o);
    });
  }
  absl::Status Barrier(const CallOptions& options) override {
    return Watched(options, [&](const auto& o) { return inner_->Barrier(o); });
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                      const CallOptions& options) override {
    std::unique_ptr<Communicator> group;
    const absl::Status status = Watched(options, [&](const auto& o) {
      auto made = inner_->Split(members, o);
      if (made.ok()) group = *std::move(made);
      return made.status();
    });
    if (!status.ok()) return status;
    return std::make_unique<WatchedCommunicator>(std::move(group), monitor_);
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  Traffic traffic() const override { return inner_->traffic(); }

 private:
  template <typename Call>
  absl::Status Watched(CallOptions options, Call&& call) {
    options.timeout = monitor_->CollectiveTimeout();
    monitor_->EnterCollective();
    absl::Status status = call(options);
    monitor_->LeaveCollective();
    return status;
  }

  // Null: the caller owns it.
  const std::unique_ptr<Communicator> owned_;
  Communicator* const inner_;
  RankMonitor* const monitor_;
};

}  // namespace longhaul
