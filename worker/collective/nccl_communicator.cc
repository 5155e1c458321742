#include "worker/collective/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "worker/collective/checked_communicator.h"
#include "worker/collective/collective_cuda_status.h"
#include "worker/collective/nccl_group.h"
#include "worker/collective/steady_deadline.h"

namespace longhaul {
namespace {

// The first error of several calls inside one NCCL group.
class FirstError {
 public:
  void operator()(ncclResult_t result) {
    if (result_ == ncclSuccess || result_ == ncclInProgress) result_ = result;
  }
  ncclResult_t result() const { return result_; }

 private:
  ncclResult_t result_ = ncclSuccess;
};

class NcclCommunicator : public CheckedCommunicator {
 public:
  // `barrier_word` is one float in device memory.
  NcclCommunicator(int rank, int size, std::unique_ptr<NcclGroup> group, float* barrier_word)
      : CheckedCommunicator(rank, size), group_(std::move(group)), barrier_word_(barrier_word) {}
  ~NcclCommunicator() override {
    group_.reset();
    cudaFree(barrier_word_);
  }

  // Makes a communicator from a group whose ranks are connected. Waits for all of them.
  static absl::StatusOr<std::unique_ptr<Communicator>> Make(int rank, int size,
                                                            std::unique_ptr<NcclGroup> group,
                                                            absl::Duration timeout) {
    float* barrier_word = nullptr;
    LH_RETURN_IF_ERROR(
        CollectiveCudaStatus(cudaMalloc(&barrier_word, sizeof(float)), "cudaMalloc"));
    auto communicator =
        std::make_unique<NcclCommunicator>(rank, size, std::move(group), barrier_word);
    // Does not count as an operation.
    LH_RETURN_IF_ERROR(communicator->DoBarrier({.timeout = timeout}));
    return communicator;
  }

  void Abort(absl::string_view reason) override { group_->Abort(reason); }

 private:
  absl::Status DoAllReduce(absl::string_view name, absl::Span<float> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, ncclFloat32, options);
  }
  absl::Status DoAllReduce(absl::string_view name, absl::Span<double> data,
                           absl::Span<const Part> parts, const CallOptions& options) override {
    return AllReduce(name, data, ncclFloat64, options);
  }

  absl::Status DoReduceScatter(absl::Span<const float> input, absl::Span<const Part> parts,
                               absl::Span<float> output, const CallOptions& options) override {
    const bool equal = std::all_of(parts.begin(), parts.end(),
                                   [&](const Part& part) { return part.size == parts[0].size; });
    return Run("reduce-scatter", options, [&](ncclComm_t comm, cudaStream_t stream) {
      if (equal) {
        return ncclReduceScatter(input.data(), output.data(), parts[0].size, ncclFloat32, ncclSum,
                                 comm, stream);
      }
      FirstError first;
      for (int r = 0; r < size(); ++r) {
        if (parts[r].size == 0) continue;
        first(ncclReduce(input.data() + parts[r].offset, output.data(), parts[r].size, ncclFloat32,
                         ncclSum, r, comm, stream));
      }
      return first.result();
    });
  }

  absl::Status DoAllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                           absl::Span<std::byte> output, const CallOptions& options) override {
    int64_t total = 0;
    bool equal = true;
    for (int r = 0; r < size(); ++r) {
      equal = equal && parts[r] == Part{parts[0].offset + total, parts[0].size};
      total += parts[r].size;
    }
    return Run("all-gather", options, [&](ncclComm_t comm, cudaStream_t stream) {
      if (equal) {
        return ncclAllGather(input.data(), output.data() + parts[0].offset, input.size(), ncclInt8,
                             comm, stream);
      }
      FirstError first;
      for (int r = 0; r < size(); ++r) {
        if (parts[r].size == 0) continue;
        first(ncclBroadcast(input.data(), output.data() + parts[r].offset, parts[r].size, ncclInt8,
                            r, comm, stream));
      }
      return first.result();
    });
  }

  absl::Status DoBroadcast(absl::Span<std::byte> data, int root,
                           const CallOptions& options) override {
    return Run("broadcast", options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data.data(), data.data(), data.size(), ncclInt8, root, comm, stream);
    });
  }

  absl::Status DoAllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                          absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                          const CallOptions& options) override {
    return Run("all-to-all", options, [&](ncclComm_t comm, cudaStream_t stream) {
      FirstError first;
      for (int r = 0; r < size(); ++r) {
        const Part send = send_parts[r], receive = receive_parts[r];
        if (send.size > 0)
          first(ncclSend(input.data() + send.offset, send.size, ncclInt8, r, comm, stream));
        if (receive.size > 0)
          first(ncclRecv(output.data() + receive.offset, receive.size, ncclInt8, r, comm, stream));
      }
      return first.result();
    });
  }

  absl::Status DoBarrier(const CallOptions& options) override {
    return Run("barrier", options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(barrier_word_, barrier_word_, 1, ncclFloat32, ncclSum, comm, stream);
    });
  }

  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(int new_rank, absl::Span<const int> members,
                                                        const CallOptions& options) override {
    LH_ASSIGN_OR_RETURN(auto group,
                        group_->Split(members[0], new_rank, SteadyDeadlineIn(options.timeout)));
    return Make(new_rank, static_cast<int>(members.size()), std::move(group), options.timeout);
  }

  absl::Status Run(absl::string_view operation, const CallOptions& options,
                   absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue) {
    const absl::Status status = group_->Run(static_cast<cudaStream_t>(options.stream),
                                            SteadyDeadlineIn(options.timeout), enqueue);
    if (status.ok()) return status;
    return WithContext(operation, status);
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view name, absl::Span<T> data, ncclDataType_t type,
                         const CallOptions& options) {
    return Run(name, options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(data.data(), data.data(), data.size(), type, ncclSum, comm, stream);
    });
  }

  std::unique_ptr<NcclGroup> group_;
  float* const barrier_word_;
};

// Gives every rank the unique id of rank 0.
absl::StatusOr<ncclUniqueId> ExchangeId(const NcclCommunicatorOptions& options) {
  ncclUniqueId id{};
  std::string blob;
  if (options.rank == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      // No peer has a part in it.
      return absl::InternalError(absl::StrCat("ncclGetUniqueId: ", ncclGetErrorString(result)));
    }
    blob.assign(id.internal, sizeof(id.internal));
  }
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> blobs,
                      options.rendezvous->Exchange(options.rank, blob, options.timeout));
  if (static_cast<int>(blobs.size()) != options.size || blobs[0].size() != sizeof(id.internal)) {
    return absl::InvalidArgumentError("rendezvous: rank 0 sent no NCCL id");
  }
  std::memcpy(id.internal, blobs[0].data(), sizeof(id.internal));
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(
    const NcclCommunicatorOptions& options) {
  if (options.rank < 0 || options.rank >= options.size || options.rendezvous == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("nccl: rank ", options.rank, " of ", options.size));
  }
  LH_RETURN_IF_ERROR(CheckCudaDevice(options.device));
  const auto deadline = SteadyDeadlineIn(options.timeout);
  LH_ASSIGN_OR_RETURN(const ncclUniqueId id, ExchangeId(options));
  LH_ASSIGN_OR_RETURN(auto group,
                      NcclGroup::Connect(options.rank, options.size, options.device, id, deadline));
  return NcclCommunicator::Make(options.rank, options.size, std::move(group), options.timeout);
}

}  // namespace longhaul

extern "C" __attribute__((visibility("default")))
absl::StatusOr<std::unique_ptr<longhaul::Communicator>>
longhaul_make_nccl_communicator(const longhaul::NcclCommunicatorOptions& options) {
  return longhaul::MakeNcclCommunicator(options);
}
