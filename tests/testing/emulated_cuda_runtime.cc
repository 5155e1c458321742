#include "tests/testing/emulated_cuda_runtime.h"

#include <cstdlib>
#include <cstring>
#include <utility>

// The emulation must come before the kernels.
#include "common/codec/cuda/kernel_table-inl.h"

namespace longhaul::testing_support {

using cuda_emulation::Order;

namespace {

absl::Mutex& OfKernels() {
  static auto* const mutex = new absl::Mutex;
  return *mutex;
}

absl::Status RunNow(int blocks, absl::FunctionRef<void()> kernel) {
  absl::MutexLock one_at_a_time(&OfKernels());
  return cuda_emulation::Launch(blocks, cuda::kThreads, Order::kBackwards, kernel);
}

}  // namespace

EmulatedCudaRuntime::~EmulatedCudaRuntime() {
  for (const auto& [memory, bytes] : device_blocks_) std::free(memory);
}

absl::StatusOr<void*> EmulatedCudaRuntime::Allocate(Memory kind, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (kind == Memory::kDevice && bytes > free_device_bytes_)
    return absl::ResourceExhaustedError("no device memory is left");
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // Reads of memory that was never written give NaN and reserved codes.
  std::memset(memory, 0xff, bytes);
  if (kind == Memory::kDevice) {
    free_device_bytes_ -= bytes;
    device_bytes_ += bytes;
    device_blocks_.emplace(memory, bytes);
  }
  return memory;
}

void EmulatedCudaRuntime::Free(Memory kind, void* memory) {
  absl::MutexLock lock(&mutex_);
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
  absl::MutexLock lock(&mutex_);
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

absl::Status EmulatedCudaRuntime::EnqueueKernel(int blocks, std::function<void()> kernel) {
  absl::MutexLock lock(&mutex_);
  const Order order = ++launches_ % 2 == 0 ? Order::kForwards : Order::kBackwards;
  codec_queue_.push_back([=, kernel = std::move(kernel)] {
    absl::MutexLock one_at_a_time(&OfKernels());
    return cuda_emulation::Launch(blocks, cuda::kThreads, order, kernel);
  });
  return absl::OkStatus();
}

absl::Status EmulatedCudaRuntime::Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                                         cuda::EncodeReport* reports, int count) {
  return EnqueueKernel(count, [=, kernel = cuda::EncodeKernelOf(options),
                               decay = options.feedback_decay] { kernel(jobs, reports, decay); });
}

absl::Status EmulatedCudaRuntime::Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                                         float weight, bool accumulate) {
  return EnqueueKernel(
      count, [=, kernel = cuda::DecodeKernelOf(kind)] { kernel(jobs, weight, accumulate); });
}

absl::Status EmulatedCudaRuntime::Wait() {
  std::deque<std::function<absl::Status()>> queue;
  {
    absl::MutexLock lock(&mutex_);
    ++waits_;
    queue.swap(codec_queue_);
  }
  absl::Status first;
  for (const auto& work : queue) {
    const absl::Status status = work();
    if (first.ok()) first = status;
  }
  return first;
}

void EmulatedCudaRuntime::set_free_device_bytes(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  free_device_bytes_ = bytes;
}

int64_t EmulatedCudaRuntime::device_bytes() const {
  absl::MutexLock lock(&mutex_);
  return device_bytes_;
}

int EmulatedCudaRuntime::launches() const {
  absl::MutexLock lock(&mutex_);
  return launches_;
}

int EmulatedCudaRuntime::waits() const {
  absl::MutexLock lock(&mutex_);
  return waits_;
}

absl::Status EmulatedSegmentKernels::Encode(const CodecOptions& options,
                                            const cuda::EncodeJob* jobs,
                                            cuda::EncodeReport* reports, int count, void*) const {
  const cuda::EncodeKernel kernel = cuda::EncodeKernelOf(options);
  return RunNow(count, [&] { kernel(jobs, reports, options.feedback_decay); });
}

absl::Status EmulatedSegmentKernels::Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                                            void*) const {
  const cuda::DecodeKernel kernel = cuda::DecodeKernelOf(kind);
  return RunNow(count, [&] { kernel(jobs, 1, /*accumulate=*/false); });
}

absl::Status EmulatedSegmentKernels::Reduce(CodecKind kind, const cuda::ReduceJob* jobs,
                                            cuda::EncodeReport* reports, int count, void*) const {
  const cuda::ReduceKernel kernel = cuda::ReduceKernelOf(kind);
  return RunNow(count, [&] { kernel(jobs, reports, 1); });
}

}  // namespace longhaul::testing_support
