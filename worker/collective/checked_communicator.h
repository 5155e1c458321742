// The common part of all communicators: a rank's place in the group, the checks of arguments before
// anything is exchanged, and the count of traffic. Subclasses do the exchange. The contract is that
// of communicator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"
#include "worker/collective/traffic_meter.h"

namespace longhaul {

class CheckedCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }

  absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) final;
  absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) final;
  absl::Status ReduceScatterSum(absl::Span<const float> input, absl::Span<const int64_t> counts,
                                absl::Span<float> output, const CallOptions& options) final;
  absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                         absl::Span<std::byte> output, const CallOptions& options) final;
  absl::Status Broadcast(absl::Span<std::byte> data, int root, const CallOptions& options) final;
  absl::Status AllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                        absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                        const CallOptions& options) final;
  absl::Status Barrier(const CallOptions& options) final;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                      const CallOptions& options) final;
  Traffic traffic() const final { return traffic_.Read(); }
  void SetWatch(CollectiveWatch* watch) final { watch_ = watch; }

 protected:
  CheckedCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  // The operations of Communicator on arguments that were checked. They count no traffic.

  // `name` is that of the operation in messages. `parts`, in elements: a rank may sum its own and
  // then gather the others'.
  virtual absl::Status DoAllReduce(absl::string_view name, absl::Span<float> data,
                                   absl::Span<const Part> parts, const CallOptions& options) = 0;
  virtual absl::Status DoAllReduce(absl::string_view name, absl::Span<double> data,
                                   absl::Span<const Part> parts, const CallOptions& options) = 0;
  // `parts` of the input, in elements.
  virtual absl::Status DoReduceScatter(absl::Span<const float> input, absl::Span<const Part> parts,
                                       absl::Span<float> output, const CallOptions& options) = 0;
  virtual absl::Status DoAllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                                   absl::Span<std::byte> output, const CallOptions& options) = 0;
  virtual absl::Status DoBroadcast(absl::Span<std::byte> data, int root,
                                   const CallOptions& options) = 0;
  virtual absl::Status DoAllToAll(absl::Span<const std::byte> input,
                                  absl::Span<const Part> send_parts, absl::Span<std::byte> output,
                                  absl::Span<const Part> receive_parts,
                                  const CallOptions& options) = 0;
  virtual absl::Status DoBarrier(const CallOptions& options) = 0;
  // `new_rank`: this rank's number in the new group. May call other operations, which do not count
  // here; the new communicator has counted nothing yet.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(int new_rank,
                                                                absl::Span<const int> members,
                                                                const CallOptions& options) = 0;

 private:
  template <typename T>
  absl::Status AllReduce(absl::string_view name, absl::Span<T> data, const CallOptions& options);
  // Calls one of the operations below, as the watch wants it.
  template <typename Operation>
  absl::Status Watched(CallOptions options, Operation&& operation);
  // Counts an operation without payload.
  void CountOperation() { traffic_.Add(0, 0); }

  const int rank_, size_;
  // May be null.
  CollectiveWatch* watch_ = nullptr;
  TrafficMeter traffic_;
};

}  // namespace longhaul
