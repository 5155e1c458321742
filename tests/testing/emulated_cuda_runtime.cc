#include "tests/testing/emulated_cuda_runtime.h"

#include <cstdlib>
#include <cstring>
#include <utility>

// The emulation before the kernels.
#include "common/codec/cuda/kernel_table-inl.h"

namespace longhaul::testing_support {

using cuda_emulation::Order;

EmulatedCudaRuntime::~EmulatedCudaRuntime() {
  for (const auto& [memory, bytes] : device_blocks_) std::free(memory);
}

absl::StatusOr<void*> EmulatedCudaRuntime::Allocate(Memory kind, int64_t bytes) {
  if (kind == Memory::kDevice && bytes > free_device_bytes_)
    return absl::ResourceExhaustedError("no device memory is left");
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // Whoever reads what was never written gets NaN and reserved codes.
  std::memset(memory, 0xff, bytes);
  if (kind == Memory::kDevice) {
    free_device_bytes_ -= bytes;
    device_bytes_ += bytes;
    device_blocks_.emplace(memory, bytes);
  }
  return memory;
}

void EmulatedCudaRuntime::Free(Memory kind, void* memory) {
  if (kind == Memory::kDevice) {
    const auto block = device_blocks_.lower_bound({memory, 0});
    free_device_bytes_ += block->second;
    device_bytes_ -= block->second;
    device_blocks_.erase(block);
  }
  std::free(memory);
}

absl::Status EmulatedCudaRuntime::Enqueue(Queue queue, std::function<absl::Status()> work) {
  if (queue == Queue::kTraining) return work();
  codec_queue_.push_back(std::move(work));
  return absl::OkStatus();
}

absl::Status EmulatedCudaRuntime::Copy(Queue queue, void* to, const void* from, int64_t bytes) {
  return Enqueue(queue, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  });
}

absl::Status EmulatedCudaRuntime::Zero(Queue queue, void* to, int64_t bytes) {
  return Enqueue(queue, [=] {
    if (bytes > 0) std::memset(to, 0, bytes);
    return absl::OkStatus();
  });
}

Order EmulatedCudaRuntime::NextOrder() {
  return ++launches_ % 2 == 0 ? Order::kForwards : Order::kBackwards;
}

absl::Status EmulatedCudaRuntime::Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                                         cuda::EncodeReport* reports, int count) {
  const cuda::EncodeKernel kernel = cuda::EncodeKernelOf(options);
  const float decay = options.feedback_decay;
  return Enqueue(Queue::kCodec, [=, order = NextOrder()] {
    return cuda_emulation::Launch(count, cuda::kThreads, order,
                                  [&] { kernel(jobs, reports, decay); });
  });
}

absl::Status EmulatedCudaRuntime::Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                                         float weight, bool accumulate) {
  const cuda::DecodeKernel kernel = cuda::DecodeKernelOf(kind);
  return Enqueue(Queue::kCodec, [=, order = NextOrder()] {
    return cuda_emulation::Launch(count, cuda::kThreads, order,
                                  [&] { kernel(jobs, weight, accumulate); });
  });
}

absl::Status EmulatedCudaRuntime::Wait() {
  ++waits_;
  absl::Status first;
  for (; !codec_queue_.empty(); codec_queue_.pop_front()) {
    const absl::Status status = codec_queue_.front()();
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace longhaul::testing_support
