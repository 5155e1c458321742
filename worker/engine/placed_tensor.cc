#include "worker/engine/placed_tensor.h"

#include <utility>

#include "ATen/ops/from_blob.h"
#include "c10/util/Exception.h"

namespace longhaul {

at::Tensor PlacedZeros(Movement& movement, Place place, int64_t elements, at::ScalarType type,
                       at::Device device, absl::string_view what) {
  const auto options =
      c10::TensorOptions(type).device(place == Place::kHost ? at::Device(at::kCPU) : device);
  const auto bytes = elements * static_cast<int64_t>(c10::elementSize(type));
  absl::StatusOr<std::shared_ptr<std::byte>> memory{std::shared_ptr<std::byte>()};
  if (bytes > 0) memory = movement.Allocate(place, bytes, what);
  TORCH_CHECK_WITH(OutOfMemoryError, memory.ok(), std::string(memory.status().message()));
  const int64_t sizes[] = {elements};
  return at::for_blob(memory->get(), sizes)
      .options(options)
      .target_device(options.device())
      .deleter([owner = *memory](void*) mutable { owner.reset(); })
      .make_tensor();
}

std::unique_ptr<PlacedBuffer> BufferOn(const at::Tensor& tensor, Place place, std::string name) {
  return std::make_unique<PlacedBuffer>(std::move(name), place, SpanOf<std::byte>(tensor));
}

}  // namespace longhaul
