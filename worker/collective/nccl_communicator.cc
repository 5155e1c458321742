#include "worker/collective/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_status.h"
#include "worker/collective/call_checks.h"
#include "worker/collective/nccl_group.h"
#include "worker/collective/traffic_meter.h"

namespace longhaul {
namespace {

NcclGroup::Deadline DeadlineOf(absl::Duration timeout) {
  return std::chrono::steady_clock::now() +
         absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
}

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

class NcclCommunicator : public Communicator {
 public:
  // `barrier_word` is one float in device memory.
  NcclCommunicator(int rank, int size, std::unique_ptr<NcclGroup> group, float* barrier_word)
      : rank_(rank), size_(size), group_(std::move(group)), barrier_word_(barrier_word) {}
  ~NcclCommunicator() override {
    group_.reset();
    cudaFree(barrier_word_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) override {
    return AllReduce("all-reduce", data, ncclFloat32, options);
  }
  absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) override {
    return AllReduce("all-reduce of doubles", data, ncclFloat64, options);
  }

  absl::Status ReduceScatterSum(absl::Span<const float> input, absl::Span<const int64_t> counts,
                                absl::Span<float> output, const CallOptions& options) override {
    std::vector<Part> parts;
    LH_RETURN_IF_ERROR(
        CheckReduceScatter(*this, input.size(), counts, output.size(), options, &parts));
    const bool equal = std::all_of(counts.begin(), counts.end(),
                                   [&](int64_t count) { return count == counts[0]; });
    LH_RETURN_IF_ERROR(Run("reduce-scatter", options, [&](ncclComm_t comm, cudaStream_t stream) {
      if (equal) {
        return ncclReduceScatter(input.data(), output.data(), counts[0], ncclFloat32, ncclSum, comm,
                                 stream);
      }
      FirstError first;
      for (int r = 0; r < size_; ++r) {
        if (counts[r] == 0) continue;
        first(ncclReduce(input.data() + parts[r].offset, output.data(), counts[r], ncclFloat32,
                         ncclSum, r, comm, stream));
      }
      return first.result();
    }));
    traffic_.AddReduceScatter(input.size() * sizeof(float), output.size() * sizeof(float), size_);
    return absl::OkStatus();
  }

  absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                         absl::Span<std::byte> output, const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckAllGather(*this, input.size(), parts, output.size(), options));
    int64_t total = 0;
    bool equal = true;
    for (int r = 0; r < size_; ++r) {
      equal = equal && parts[r] == Part{parts[0].offset + total, parts[0].size};
      total += parts[r].size;
    }
    LH_RETURN_IF_ERROR(Run("all-gather", options, [&](ncclComm_t comm, cudaStream_t stream) {
      if (equal) {
        return ncclAllGather(input.data(), output.data() + parts[0].offset, input.size(), ncclInt8,
                             comm, stream);
      }
      FirstError first;
      for (int r = 0; r < size_; ++r) {
        if (parts[r].size == 0) continue;
        first(ncclBroadcast(input.data(), output.data() + parts[r].offset, parts[r].size, ncclInt8,
                            r, comm, stream));
      }
      return first.result();
    }));
    traffic_.AddAllGather(total, input.size(), size_);
    return absl::OkStatus();
  }

  absl::Status Broadcast(absl::Span<std::byte> data, int root,
                         const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckBroadcast(*this, root, options));
    LH_RETURN_IF_ERROR(Run("broadcast", options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data.data(), data.data(), data.size(), ncclInt8, root, comm, stream);
    }));
    traffic_.AddBroadcast(data.size(), rank_ == root, size_);
    return absl::OkStatus();
  }

  absl::Status AllToAll(absl::Span<const std::byte> input, absl::Span<const Part> send_parts,
                        absl::Span<std::byte> output, absl::Span<const Part> receive_parts,
                        const CallOptions& options) override {
    LH_RETURN_IF_ERROR(
        CheckAllToAll(*this, input.size(), send_parts, output.size(), receive_parts, options));
    LH_RETURN_IF_ERROR(Run("all-to-all", options, [&](ncclComm_t comm, cudaStream_t stream) {
      FirstError first;
      for (int r = 0; r < size_; ++r) {
        const Part send = send_parts[r], receive = receive_parts[r];
        if (send.size > 0)
          first(ncclSend(input.data() + send.offset, send.size, ncclInt8, r, comm, stream));
        if (receive.size > 0)
          first(ncclRecv(output.data() + receive.offset, receive.size, ncclInt8, r, comm, stream));
      }
      return first.result();
    }));
    traffic_.AddAllToAll(send_parts, receive_parts, rank_);
    return absl::OkStatus();
  }

  absl::Status Barrier(const CallOptions& options) override {
    LH_RETURN_IF_ERROR(CheckTimeout("barrier", options));
    LH_RETURN_IF_ERROR(Run("barrier", options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(barrier_word_, barrier_word_, 1, ncclFloat32, ncclSum, comm, stream);
    }));
    traffic_.Add(0, 0);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                      const CallOptions& options) override {
    LH_ASSIGN_OR_RETURN(const int own, CheckSplit(*this, members, options));
    LH_ASSIGN_OR_RETURN(auto group, group_->Split(members[0], own, DeadlineOf(options.timeout)));
    return Make(own, static_cast<int>(members.size()), std::move(group), options.timeout);
  }

  // Makes a communicator from a group whose ranks are connected. Waits for all of them.
  static absl::StatusOr<std::unique_ptr<Communicator>> Make(int rank, int size,
                                                            std::unique_ptr<NcclGroup> group,
                                                            absl::Duration timeout) {
    float* barrier_word = nullptr;
    LH_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&barrier_word, sizeof(float)), "cudaMalloc"));
    auto communicator =
        std::make_unique<NcclCommunicator>(rank, size, std::move(group), barrier_word);
    LH_RETURN_IF_ERROR(communicator->Barrier({.timeout = timeout}));
    return communicator;
  }

  void Abort(absl::string_view reason) override { group_->Abort(reason); }
  Traffic traffic() const override { return traffic_.Read(); }

 private:
  absl::Status Run(absl::string_view operation, const CallOptions& options,
                   absl::FunctionRef<ncclResult_t(ncclComm_t, cudaStream_t)> enqueue) {
    const absl::Status status = group_->Run(static_cast<cudaStream_t>(options.stream),
                                            DeadlineOf(options.timeout), enqueue);
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(operation, ": ", status.message()));
  }

  template <typename T>
  absl::Status AllReduce(absl::string_view operation, absl::Span<T> data, ncclDataType_t type,
                         const CallOptions& options) {
    LH_RETURN_IF_ERROR(CheckTimeout(operation, options));
    LH_RETURN_IF_ERROR(Run(operation, options, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(data.data(), data.data(), data.size(), type, ncclSum, comm, stream);
    }));
    const int64_t own = EvenParts(data.size(), size_)[rank_].size;
    traffic_.AddAllReduce(data.size() * sizeof(T), own * sizeof(T), size_);
    return absl::OkStatus();
  }

  const int rank_, size_;
  std::unique_ptr<NcclGroup> group_;
  float* const barrier_word_;
  TrafficMeter traffic_;
};

absl::Status CheckDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("no CUDA device: ", cudaGetErrorString(error)));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("CUDA device ", device, " of ", count));
}

// Gives every rank the unique id of rank 0.
absl::StatusOr<ncclUniqueId> ExchangeId(const NcclCommunicatorOptions& options) {
  ncclUniqueId id{};
  std::string blob;
  if (options.rank == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      return absl::UnavailableError(absl::StrCat("ncclGetUniqueId: ", ncclGetErrorString(result)));
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
  LH_RETURN_IF_ERROR(CheckDevice(options.device));
  const auto deadline = DeadlineOf(options.timeout);
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
