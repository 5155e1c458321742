#include "worker/engine/offload_device.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/_fused_adamw.h"
#include "ATen/ops/full.h"
#include "absl/strings/str_cat.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "common/io/available_memory.h"
#include "common/io/machine_fingerprint.h"
#include "common/io/posix_filesystem.h"
#include "worker/engine/subgroup_tensors.h"
#include "worker/engine/torch_muon.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/unit_code.h"
#include "worker/model/device_stream.h"
#include "worker/movement/cuda/cuda_movement_module.h"
#include "worker/offload/host_memory.h"
#include "worker/offload/update_rates.h"

namespace longhaul {
namespace {

// The four arrays of so many elements do not fit into the caches.
constexpr int64_t kMeasuredElementsMax = 1 << 23;

SubgroupUpdate GivenTo(const DeviceUpdate& update) {
  const auto size = static_cast<size_t>(update.elements);
  const AdamWArrays& arrays = update.arrays;
  SubgroupUpdate given{.parameters = {arrays.parameters, size}};
  if (arrays.gradients != nullptr) given.gradients = {arrays.gradients, size};
  if (arrays.narrow_gradients != nullptr) given.narrow_gradients = {arrays.narrow_gradients, size};
  if (arrays.shadow != nullptr) given.shadow = {arrays.shadow, size};
  return given;
}

absl::Status UpdateMatrixOf(const MuonOptions& muon, const DeviceUpdate& update,
                            at::Device device) {
  return CatchTorch("updating a matrix", [&]() -> absl::Status {
    const SubgroupShape shape{.elements = update.elements,
                              .decay = update.decay,
                              .rows = update.rows,
                              .columns = update.columns};
    const absl::Span<float> momentum(update.arrays.moment, static_cast<size_t>(update.elements));
    UpdateMatrix(muon, shape, update.update, GivenTo(update),
                 TensorOf(momentum, device).view({shape.rows, shape.columns}), device);
    return absl::OkStatus();
  });
}

// Torch's fused kernel, on a stream of torch that is also the compute stream of the movement.
absl::Status TorchUpdate(const DeviceUpdate& update, c10::Stream stream) {
  return CatchTorch("updating on the device", [&]() -> absl::Status {
    const at::NoGradGuard no_grad;
    const c10::StreamGuard guard(stream);
    const at::Device device = stream.device();
    const auto size = static_cast<size_t>(update.elements);
    const AdamWArrays& arrays = update.arrays;
    const auto floats = [&](float* data) { return TensorOf(absl::MakeSpan(data, size), device); };
    const SubgroupUpdate given = GivenTo(update);
    const at::Tensor parameters = floats(arrays.parameters);
    const at::Tensor gradient = ScaledGradient(given, update.update.gradient_scale, device);
    const at::Tensor count = at::full({}, static_cast<double>(update.count),
                                      c10::TensorOptions(at::kFloat).device(device));
    at::_fused_adamw_({parameters}, {gradient}, {floats(arrays.moment)}, {floats(arrays.variance)},
                      /*max_exp_avg_sqs=*/{}, {count}, update.update.learning_rate,
                      update.options.beta1, update.options.beta2,
                      update.decay ? update.options.weight_decay : 0, update.options.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    if (arrays.shadow != nullptr)
      TensorOf(absl::MakeSpan(arrays.shadow, size), device).copy_(parameters);
    return absl::OkStatus();
  });
}

}  // namespace

InterleavedAdamW::Options InterleavedOptionsOf(const OptimizerOptions& optimizer) {
  const auto* const muon = std::get_if<MuonOptions>(&optimizer);
  if (muon == nullptr) return {.adamw = std::get<AdamWOptions>(optimizer)};
  return {.adamw = muon->adamw,
          .adamw_rate = muon->adamw_rate,
          .matrices = [muon = *muon](const DeviceUpdate& update) {
            return UpdateMatrixOf(muon, update, at::kCPU);
          }};
}

absl::StatusOr<OffloadDevice> OpenOffloadDevice(c10::Device device, const OffloadPlan& options,
                                                const OptimizerOptions& optimizer,
                                                Patience patience) {
  const HostUpdate matrices = InterleavedOptionsOf(optimizer).matrices;
  if (device.is_cpu()) {
    EmulatedMovement::Options emulation = options.emulation;
    emulation.timeout = std::move(patience);
    return OffloadDevice{.movement = std::make_shared<EmulatedMovement>(emulation),
                         .update =
                             [matrices](const DeviceUpdate& update, void* stream) {
                               return update.rows > 0 ? matrices(update)
                                                      : EmulatedAdamW(update, stream);
                             },
                         .name = "emulated device"};
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream compute = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  CudaMovementOptions cuda{.device = device.index(),
                           .caller_stream = CurrentStream(device),
                           .compute_stream = compute.native_handle(),
                           .timeout = std::move(patience)};
  OffloadDevice result;
  LH_ASSIGN_OR_RETURN(result.movement, LoadCudaMovement(cuda));
  result.name = CudaDeviceName(device.index()).value_or("GPU");
  const auto* const muon = std::get_if<MuonOptions>(&optimizer);
  result.update = [compute, muon = muon == nullptr ? MuonOptions() : *muon](
                      const DeviceUpdate& update, void*) {
    if (update.rows == 0) return TorchUpdate(update, compute);
    const c10::StreamGuard on_stream(compute);
    return UpdateMatrixOf(muon, update, compute.device());
  };
  return result;
}

absl::Status CheckOffloadMemory(const ModelLayout& layout, const ShardPlan& plan,
                                const OffloadPlan& options, const OptimizerOptions& optimizer,
                                c10::Device device, bool computes_in_float, int ranks) {
  OffloadNeed need;
  const PartitionMap& map = plan.map();
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    need.masters += 4 * plan.Held(unit, map.optimizer).count;
    if (!options.parameters) continue;
    const int64_t kept = plan.Held(unit, map.weights.level).count;
    need.weights += computes_in_float ? 4 * (kept - plan.Held(unit, map.optimizer).count)
                                      : 2 * kept + 4 * VectorElements(layout.units[unit]);
  }
  std::vector<SubgroupShape> shapes;
  for (const UnitSubgroup& subgroup : plan.subgroups()) shapes.push_back(subgroup.shape);
  // With an automatic stride, assumes that no subgroup is interleaved, which needs most host
  // memory.
  InterleavedAdamW::Options update = InterleavedOptionsOf(optimizer);
  update.schedule = options.schedule;
  update.schedule.stride = std::max(0, update.schedule.stride);
  update.shadow = !computes_in_float;
  const InterleavedAdamW::Bytes bytes = InterleavedAdamW::BytesOf(update, shapes);
  need.optimizer = bytes.host;
  if (device.is_cpu()) need.emulated = bytes.device;
  if (options.host_bytes > 0) return CheckHostMemory(need, ranks, options.host_bytes);
  LH_ASSIGN_OR_RETURN(const int64_t available, AvailableMemory());
  return CheckHostMemory(need, ranks, available);
}

absl::StatusOr<int> ChooseUpdateStride(const OffloadDevice& device, const OffloadPlan& options,
                                       const OptimizerOptions& optimizer, bool shadow, int ranks,
                                       absl::Span<const int64_t> elements, ThreadTeam& team) {
  if (options.schedule.stride >= 0) return options.schedule.stride;
  const auto* const adamw = std::get_if<AdamWOptions>(&optimizer);
  if (adamw == nullptr) return 1;
  const int64_t all = std::accumulate(elements.begin(), elements.end(), int64_t{0});
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const std::string fingerprint =
      MachineFingerprint(absl::StrCat(device.name, ", ", team.threads(), " threads, subgroups of ",
                                      options.subgroup_elements, ", ", all, " elements"));
  absl::StatusOr<UpdateRates> rates = absl::NotFoundError("not measured");
  if (!options.profile_path.empty())
    rates = LoadUpdateRates(*fs, options.profile_path, fingerprint);
  // A file that cannot be read costs a measurement, not the job.
  if (!rates.ok()) {
    rates = MeasureUpdateRates(
        *device.movement, device.update, &team,
        {.adamw = *adamw, .elements = std::clamp<int64_t>(all, 1, kMeasuredElementsMax)});
    LH_RETURN_IF_ERROR(rates.status());
    if (!options.profile_path.empty())
      SaveUpdateRates(*fs, options.profile_path, fingerprint, *rates).IgnoreError();
  }
  UpdateLoad load{.rates = *rates, .ranks = ranks};
  if (shadow) load.traffic.shadow_up = 2;
  return ChooseStride(load, elements, options.schedule.device_share);
}

}  // namespace longhaul
