#include "worker/collective/thread_communicator.h"

#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/collective/call_checks.h"
#include "worker/collective/rank_order_sum.h"
#include "worker/collective/thread_group.h"
#include "worker/collective/thread_subgroup.h"
#include "worker/collective/traffic_meter.h"

namespace longhaul {
namespace {

// memcpy and memmove do not allow the null pointer of an empty buffer.
void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(int rank, int size, std::shared_ptr<ThreadGroup> group)
      : rank_(rank), size_(size), group_(std::move(group)) {}
  ~ThreadCommunicator() override { group_->Depart(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) override {
    return AllReduce("all-reduce", data, options);
  }
  absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) override {
    return AllReduce("all-reduce of doubles", data, options);
  }

  absl::Status ReduceScatterSum(absl::Span<const float> input, absl::Span<const int64_t> counts,
                                absl::Span<float> output, const CallOptions& options) override {
    std::vector<Part> parts;
    LH_RETURN_IF_ERROR(
        CheckReduceScatter(*this, input.size(), counts, output.size(), options, &parts));
    LH_RETURN_IF_ERROR(group_->Meet(
        rank_, {"reduce-scatter", {counts.begin(), counts.end()}, input.data()}, options.timeout));
    const std::vector<float> sum = SumOfInputs<float>(parts[rank_]);
    group_->Leave();
    Copy(output.data(), sum.data(), sum.size() * sizeof(float));
    traffic_.AddReduceScatter(input.size() * sizeof(float), output.size() * sizeof(float), size_);
    return absl::OkStatus();
  }

  absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                         absl::Span<std::byte> output, const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckAllGather(*this, input.size(), parts, output.size(), options));
    std::vector<int64_t> sizes;
    for (const Part& part : parts) sizes.push_back(part.size);
    int64_t total = 0;
    LH_RETURN_IF_ERROR(group_->Meet(rank_, {"all-gather", sizes, input.data()}, options.timeout));
    for (int r = 0; r < size_; ++r) {
      Copy(output.data() + parts[r].offset, group_->call(r).input, parts[r].size);
      total += parts[r].size;
    }
    group_->Leave();
    traffic_.AddAllGather(total, input.size(), size_);
    return absl::OkStatus();
  }

  absl::Status Broadcast(absl::Span<std::byte> data, int root,
                         const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckBroadcast(*this, root, options));
    LH_RETURN_IF_ERROR(
        group_->Meet(rank_, {"broadcast", {static_cast<int64_t>(data.size()), root}, data.data()},
                     options.timeout));
    if (rank_ != root) Copy(data.data(), group_->call(root).input, data.size());
    group_->Leave();
    traffic_.AddBroadcast(data.size(), rank_ == root, size_);
    return absl::OkStatus();
  }

  absl::Status AllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                        absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                        const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        CheckAllToAll(*this, input.size(), send_parts, output.size(), receive_parts, options));
    LH_RETURN_IF_ERROR(group_->Meet(
        rank_, {"all-to-all", {}, input.data(), send_parts, receive_parts}, options.timeout));
    for (int r = 0; r < size_; ++r) {
      const ThreadGroup::Call& call = group_->call(r);
      Copy(output.data() + receive_parts[r].offset,
           static_cast<const std::byte*>(call.input) + call.send_parts[rank_].offset,
           receive_parts[r].size);
    }
    group_->Leave();
    traffic_.AddAllToAll(send_parts, receive_parts, rank_);
    return absl::OkStatus();
  }

  absl::Status Barrier(const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckTimeout("barrier", options));
    LH_RETURN_IF_ERROR(group_->Meet(rank_, {"barrier"}, options.timeout));
    group_->Leave();
    traffic_.Add(0, 0);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                      const CallOptions& options) override {
    LH_ASSIGN_OR_RETURN(const int rank, CheckSplit(*this, members, options));
    LH_ASSIGN_OR_RETURN(
        std::shared_ptr<ThreadGroup> group,
        MakeSubgroup(*group_, rank_, members,
                     std::make_shared<ThreadGroup>(static_cast<int>(members.size())),
                     options.timeout));
    traffic_.Add(0, 0);
    return std::make_unique<ThreadCommunicator>(rank, static_cast<int>(members.size()),
                                                std::move(group));
  }

  void Abort(absl::string_view reason) override { group_->Abort(reason); }
  Traffic traffic() const override { return traffic_.Read(); }

 private:
  // Call between Meet and Leave: the rank-order sum of `part` of every rank's input.
  template <typename T>
  std::vector<T> SumOfInputs(Part part) const {
    std::vector<const T*> sources;
    for (int r = 0; r < size_; ++r) {
      sources.push_back(static_cast<const T*>(group_->call(r).input) + part.offset);
    }
    std::vector<T> sum(part.size);
    RankOrderSum<T>(sources, sum.data(), part.size);
    return sum;
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view operation, absl::Span<T> data,
                         const CallOptions& options) {
    LH_RETURN_IF_ERROR(CheckTimeout(operation, options));
    const int64_t count = data.size();
    LH_RETURN_IF_ERROR(group_->Meet(rank_, {operation, {count}, data.data()}, options.timeout));
    const std::vector<T> sum = SumOfInputs<T>({0, count});
    group_->Leave();
    Copy(data.data(), sum.data(), count * sizeof(T));
    traffic_.AddAllReduce(count * sizeof(T), EvenParts(count, size_)[rank_].size * sizeof(T),
                          size_);
    return absl::OkStatus();
  }

  const int rank_, size_;
  // Ends with the last rank.
  const std::shared_ptr<ThreadGroup> group_;
  TrafficMeter traffic_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size) {
  auto group = std::make_shared<ThreadGroup>(size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(rank, size, group));
  }
  return communicators;
}

}  // namespace longhaul
