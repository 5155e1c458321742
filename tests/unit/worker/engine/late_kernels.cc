// Memory and operations of the late device: each operation of torch is that of the CPU, queued on
// the calling thread's stream. As with CUDA's, a kernel knows addresses alone, and memory that is
// freed comes free when the stream that it was allocated on has come so far.
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "ATen/EmptyTensor.h"
#include "ATen/core/Tensor.h"
#include "ATen/core/dispatch/Dispatcher.h"
#include "ATen/core/grad_mode.h"
#include "ATen/detail/PrivateUse1HooksInterface.h"
#include "ATen/ops/_reshape_alias_native.h"
#include "ATen/ops/as_strided_native.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/empty_strided.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/view_native.h"
#include "ATen/ops/zeros.h"
#include "absl/algorithm/container.h"
#include "c10/core/Allocator.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/check.h"
#include "tests/unit/worker/engine/late_device.h"
#include "tests/unit/worker/engine/late_graphs.h"
#include "torch/library.h"

namespace longhaul {
namespace {

bool keep_memory = false;
// Memory that is kept though it is free.
void Keep(void* data) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<void*>;
  const std::lock_guard lock(mutex);
  kept->push_back(data);
}

struct LateMemory {
  void* data;
  void* stream;
  size_t bytes;
  // Null: it is not a graph's.
  std::shared_ptr<LateGraphMemory> graphs;
};

// What lies in memory that nobody wrote: NaN, and no small index.
constexpr int kPoison = 0xff;

void FreeLate(void* context) {
  auto* const memory = static_cast<LateMemory*>(context);
  if (memory->graphs != nullptr) {
    // Before the next recorded work that may use it.
    if (CurrentLateGraphMemory() == memory->graphs) {
      SubmitLate(memory->stream, [data = memory->data, bytes = memory->bytes] {
        std::memset(data, kPoison, bytes);
      });
    }
    FreeOfGraphs(*memory->graphs, memory->data, memory->bytes);
    delete memory;
    return;
  }
  LateStreams().Submit(memory->stream, [memory] {
    std::memset(memory->data, kPoison, memory->bytes);
    if (keep_memory) {
      Keep(memory->data);
    } else {
      ::operator delete (memory->data, std::align_val_t{64});
    }
    delete memory;
  });
}

class LateAllocator : public at::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    const std::shared_ptr<LateGraphMemory> graphs = CurrentLateGraphMemory();
    void* const data = graphs == nullptr ? ::operator new (bytes + 1, std::align_val_t{64})
                                         : AllocateForGraphs(*graphs, bytes + 1);
    auto* const memory = new LateMemory{data, CurrentLateStream(), bytes + 1, graphs};
    std::memset(memory->data, kPoison, memory->bytes);
    return {memory->data, memory, &FreeLate, kLateDevice};
  }
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    LH_CHECK(false, "copies are queued");
  }
};

struct LateHooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

bool IsLate(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kLateDevice.type();
}

// The same memory, as a tensor of the CPU.
at::Tensor Alias(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       c10::TensorOptions(tensor.scalar_type()));
}
// The same shape, of zeros.
at::Tensor ZerosLike(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += std::max<int64_t>(0, tensor.size(d) - 1) * tensor.stride(d);
  return at::zeros({last + 1}, c10::TensorOptions(tensor.scalar_type()))
      .as_strided(tensor.sizes(), tensor.strides());
}

void Queue(std::function<void()> work) {
  SubmitLate(CurrentLateStream(), [work = std::move(work)] {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset);
    work();
  });
}

std::atomic<int64_t> waits = 0;

void Synchronize() {
  CheckNotRecorded("waiting for the device");
  ++waits;
  const c10::impl::VirtualGuardImpl guard(kLateDevice.type());
  guard.synchronizeStream(guard.getStream(kLateDevice));
}

using TensorMap = at::Tensor (*)(const at::Tensor&);

// An argument with its tensors and devices replaced.
c10::IValue OnHost(const c10::IValue& value, TensorMap map) {
  if (value.isTensor())
    return IsLate(value.toTensor()) ? c10::IValue(map(value.toTensor())) : value;
  if (value.isDevice()) return c10::Device(at::kCPU);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector())
      list.push_back(IsLate(tensor) ? map(tensor) : tensor);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor.has_value() && IsLate(*tensor) ? std::optional(map(*tensor)) : tensor);
    return list;
  }
  return value;
}

std::vector<c10::IValue> OnHost(const std::vector<c10::IValue>& values, TensorMap map) {
  std::vector<c10::IValue> result;
  for (const c10::IValue& value : values) result.push_back(OnHost(value, map));
  return result;
}

at::Tensor& SetStorage(at::Tensor& tensor, at::Storage storage, int64_t offset,
                       c10::IntArrayRef size, c10::IntArrayRef stride) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride, offset);
  return tensor;
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// torch gives some operations an empty tensor for their result, which they resize. Its size is that
// of a try with zeros.
void ResizeResults(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  std::vector<size_t> empty;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (IsWritten(op.schema().arguments()[i]) && arguments[i].isTensor() &&
        IsLate(arguments[i].toTensor()) && arguments[i].toTensor().numel() == 0)
      empty.push_back(i);
  }
  if (empty.empty()) return;
  const std::vector<c10::IValue> zeros = OnHost(arguments, &ZerosLike);
  torch::jit::Stack stack = zeros;
  const at::NoGradGuard no_grad;
  op.callBoxed(&stack);
  for (const size_t i : empty) {
    at::Tensor result = arguments[i].toTensor();
    const at::Tensor memory = at::empty(zeros[i].toTensor().sizes(), result.options());
    SetStorage(result, memory.storage(), 0, memory.sizes(), memory.strides());
  }
}

// Every operation that has no kernel of its own below.
void RunLate(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(count),
                                           stack->end());
  torch::jit::drop(*stack, count);
  // What it writes: arguments,
  if (absl::c_any_of(schema.arguments(), IsWritten)) {
    ResizeResults(op, arguments);
    for (const c10::Argument& result : schema.returns()) {
      LH_CHECK(result.alias_info() != nullptr, "an operation that writes and makes");
      for (size_t i = 0; i < count; ++i) {
        const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
        if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets())
          stack->push_back(arguments[i]);
      }
    }
    return Queue([op, host = OnHost(arguments, &Alias)] {
      torch::jit::Stack values = host;
      op.callBoxed(&values);
    });
  }
  // or new tensors, whose shapes a try with zeros gives.
  torch::jit::Stack shapes = OnHost(arguments, &ZerosLike);
  {
    const at::NoGradGuard no_grad;
    op.callBoxed(&shapes);
  }
  std::vector<at::Tensor> made;
  for (const c10::IValue& shape : shapes) {
    TORCH_CHECK(shape.isTensor(), op.operator_name(), " gives what is no tensor");
    const at::Tensor& tensor = shape.toTensor();
    made.push_back(tensor.defined() ? at::empty_strided(tensor.sizes(), tensor.strides(),
                                                        tensor.options().device(kLateDevice))
                                    : at::Tensor());
    stack->push_back(made.back());
  }
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : made) out.push_back(tensor.defined() ? Alias(tensor) : tensor);
  Queue([op, host = OnHost(arguments, &Alias), out] {
    torch::jit::Stack values = host;
    op.callBoxed(&values);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].defined()) out[i].copy_(values[i].toTensor());
  });
}

at::Tensor Empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::Tensor(at::detail::empty_generic(size, c10::GetAllocator(kLateDevice.type()),
                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              type.value_or(at::kFloat), format));
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride,
                        std::optional<at::ScalarType> type, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>) {
  return at::Tensor(at::detail::empty_strided_generic(
      size, stride, c10::GetAllocator(kLateDevice.type()),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat)));
}

// From host memory: what lies there now. To host memory: waits.
at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool) {
  if (!IsLate(to)) {
    Synchronize();
    const at::NoGradGuard no_grad;
    const at::Tensor there = to;
    there.copy_(Alias(from));
    return to;
  }
  if (!IsLate(from)) CheckNotRecorded("a copy from host memory");
  const at::Tensor source = IsLate(from) ? Alias(from) : from.clone();
  Queue([source, target = Alias(to)] { target.copy_(source); });
  return to;
}

at::Scalar LocalScalar(const at::Tensor& tensor) {
  Synchronize();
  return Alias(tensor).item();
}

at::Tensor View(const at::Tensor& tensor, c10::IntArrayRef size) {
  return at::native::view(tensor, size);
}

at::Tensor AsStrided(const at::Tensor& tensor, c10::IntArrayRef size, c10::IntArrayRef stride,
                     std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(tensor, size, stride, offset);
}

at::Tensor ReshapeAlias(const at::Tensor& tensor, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::_reshape_alias(tensor, size, stride);
}

// Attention in plain operations: no kernel does all of it at once here.
int64_t PlainAttention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                       const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                       bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", PlainAttention);
  m.impl("empty.memory_format", Empty);
  m.impl("empty_strided", EmptyStrided);
  m.impl("_copy_from", CopyFrom);
  m.impl("_local_scalar_dense", LocalScalar);
  m.impl("set_.source_Storage_storage_offset", SetStorage);
  m.impl("view", View);
  m.impl("as_strided", AsStrided);
  m.impl("_reshape_alias", ReshapeAlias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&RunLate>());
}

}  // namespace

void RegisterLateKernels() {
  static const bool registered = [] {
    c10::register_privateuse1_backend("late");
    c10::SetAllocator(kLateDevice.type(), new LateAllocator);
    at::RegisterPrivateUse1HooksInterface(new LateHooks);
    return true;
  }();
  LH_CHECK(registered, "torch knows the device");
}

void KeepLateMemory() { keep_memory = true; }

int64_t LateWaits() { return waits; }

}  // namespace longhaul
