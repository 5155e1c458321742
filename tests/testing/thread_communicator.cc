#include "tests/testing/thread_communicator.h"

#include <cstring>
#include <utility>

#include "common/base/status_macros.h"
#include "tests/testing/thread_group.h"
#include "tests/testing/thread_subgroup.h"
#include "worker/collective/checked_communicator.h"
#include "worker/collective/rank_order_sum.h"

namespace longhaul {
namespace {

// memcpy and memmove do not allow the null pointer of an empty buffer.
void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

class ThreadCommunicator : public CheckedCommunicator {
 public:
  ThreadCommunicator(int rank, int size, std::shared_ptr<ThreadGroup> group)
      : CheckedCommunicator(rank, size), group_(std::move(group)) {}
  ~ThreadCommunicator() override { group_->Depart(rank()); }

  void Abort(absl::string_view reason) override { group_->Abort(reason); }

 private:
  absl::Status DoAllReduce(absl::string_view name, absl::Span<float> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, options);
  }
  absl::Status DoAllReduce(absl::string_view name, absl::Span<double> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, options);
  }

  absl::Status DoReduceScatter(absl::Span<const float> input, absl::Span<const Part> parts,
                               absl::Span<float> output, const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        group_->Meet(rank(), {"reduce-scatter", SizesOf(parts), input.data()}, options.timeout));
    const std::vector<float> sum = SumOfInputs<float>(parts[rank()]);
    group_->Leave();
    Copy(output.data(), sum.data(), sum.size() * sizeof(float));
    return absl::OkStatus();
  }

  absl::Status DoAllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                           absl::Span<std::byte> output, const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        group_->Meet(rank(), {"all-gather", SizesOf(parts), input.data()}, options.timeout));
    for (int r = 0; r < size(); ++r)
      Copy(output.data() + parts[r].offset, group_->call(r).input, parts[r].size);
    group_->Leave();
    return absl::OkStatus();
  }

  absl::Status DoBroadcast(absl::Span<std::byte> data, int root,
                           const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        group_->Meet(rank(), {"broadcast", {static_cast<int64_t>(data.size()), root}, data.data()},
                     options.timeout));
    if (rank() != root) Copy(data.data(), group_->call(root).input, data.size());
    group_->Leave();
    return absl::OkStatus();
  }

  absl::Status DoAllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                          absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                          const CallOptions& options) override {
    LH_RETURN_IF_ERROR(group_->Meet(
        rank(), {"all-to-all", {}, input.data(), send_parts, receive_parts}, options.timeout));
    for (int r = 0; r < size(); ++r) {
      const ThreadGroup::Call& call = group_->call(r);
      Copy(output.data() + receive_parts[r].offset,
           static_cast<const std::byte*>(call.input) + call.send_parts[rank()].offset,
           receive_parts[r].size);
    }
    group_->Leave();
    return absl::OkStatus();
  }

  absl::Status DoBarrier(const CallOptions& options) override {
    LH_RETURN_IF_ERROR(group_->Meet(rank(), {"barrier"}, options.timeout));
    group_->Leave();
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(int new_rank, absl::Span<const int> members,
                                                        const CallOptions& options) override {
    const int size = static_cast<int>(members.size());
    LH_ASSIGN_OR_RETURN(std::shared_ptr<ThreadGroup> group,
                        MakeSubgroup(*group_, rank(), members, std::make_shared<ThreadGroup>(size),
                                     options.timeout));
    return std::make_unique<ThreadCommunicator>(new_rank, size, std::move(group));
  }

  // Call between Meet and Leave: the rank-order sum of `part` of every rank's input.
  template <typename T>
  std::vector<T> SumOfInputs(Part part) const {
    std::vector<const T*> sources;
    for (int r = 0; r < size(); ++r) {
      sources.push_back(static_cast<const T*>(group_->call(r).input) + part.offset);
    }
    std::vector<T> sum(part.size);
    RankOrderSum<T>(sources, sum.data(), part.size);
    return sum;
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view name, absl::Span<T> data, const CallOptions& options) {
    const int64_t count = data.size();
    LH_RETURN_IF_ERROR(group_->Meet(rank(), {name, {count}, data.data()}, options.timeout));
    const std::vector<T> sum = SumOfInputs<T>({0, count});
    group_->Leave();
    Copy(data.data(), sum.data(), count * sizeof(T));
    return absl::OkStatus();
  }

  // Ends with the last rank.
  const std::shared_ptr<ThreadGroup> group_;
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
