#include "worker/engine/movement_tensor.h"

#include <utility>

#include "ATen/ops/from_blob.h"
#include "c10/util/Exception.h"

namespace longhaul {

at::Tensor ZerosOn(Movement& movement, MemorySide side, int64_t elements, at::ScalarType type,
                   at::Device device, absl::string_view what) {
  const auto options =
      c10::TensorOptions(type).device(side == MemorySide::kHost ? at::Device(at::kCPU) : device);
  const auto bytes = elements * static_cast<int64_t>(c10::elementSize(type));
  absl::StatusOr<std::shared_ptr<std::byte>> memory{std::shared_ptr<std::byte>()};
  if (bytes > 0) memory = movement.Allocate(side, bytes, what);
  TORCH_CHECK_WITH(OutOfMemoryError, memory.ok(), std::string(memory.status().message()));
  const int64_t sizes[] = {elements};
  return at::for_blob(memory->get(), sizes)
      .options(options)
      .target_device(options.device())
      .deleter([owner = *memory](void*) mutable { owner.reset(); })
      .make_tensor();
}

std::unique_ptr<VersionedBuffer> BufferOn(const at::Tensor& tensor, MemorySide side,
                                          std::string name) {
  return std::make_unique<VersionedBuffer>(std::move(name), side, SpanOf<std::byte>(tensor));
}

}  // namespace longhaul
