// The codecs, and the kernels of transformer blocks, on a CUDA device.
//   encode_*, decode_*, reduce_*  all tiles in one launch, device memory to device memory; reduce
//                    sums four coded senders. By the bytes that they read and write; reference:
//                    those of a copy of the fp32 within the device
//   rotate, swiglu_*  of bfloat16, likewise
//   contribution_*   what a round does: outer parameters from host memory, snapshot and feedback on
//                    the device, codes to pinned memory; reference: the upload of those parameters
//   training_beside_*  steps of kernels a second on the training's stream while contributions are
//                    coded without a pause, against none: a round codes far less than that
//   cuda_codec_benchmark [--smoke]    256 MiB of floats; --smoke: small, quick
#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/codec/cuda/cuda_codec_module.h"
#include "common/codec/cuda/segment_kernels.h"
#include "common/layout/fragment_layout.h"
#include "cuda_runtime_api.h"
#include "tests/benchmark/cuda/training_kernels.h"
#include "tests/benchmark/harness/row.h"
#include "worker/kernels/cuda/block_kernels.h"

namespace longhaul::benchmark {
namespace {

constexpr auto kCodec = DeviceRuntime::Queue::kCodec;
constexpr int kLaunches = 20, kSources = 4;
constexpr double kOfCopyMin = 0.8;

void Must(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  LH_CHECK(status.ok(), "the device failed");
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

class CudaCodecBenchmark {
 public:
  CudaCodecBenchmark(std::shared_ptr<DeviceCodec> device, int64_t tiles, int repetitions)
      : device_(std::move(device)),
        tiles_(tiles),
        repetitions_(repetitions),
        outer_(tiles * kTileElements),
        values_(Value(device_->AllocateFloats(outer_.size()))),
        error_(Value(device_->AllocateFloats(outer_.size()))),
        copy_(Value(device_->AllocateFloats(outer_.size()))) {
    Random random(1);
    for (float& x : outer_) x = static_cast<float>(random.Uniform() - 0.5);
    Must(device_->Upload(outer_, values_.get()));
    Must(device_->Zero(error_.get(), outer_.size()));
    for (int64_t t = 0; t < tiles_; ++t)
      segments_.push_back(
          {t * kTileElements, kTileElements, {.key = 1, .first_block = t * kTileBlocks}});
  }

  void Run(const std::string& name, const CodecOptions& options) {
    Kernels(name, options);
    Contribution(name, options);
  }

  void TransformerKernels() {
    const BlockKernels& kernels = *Value(LoadCudaBlockKernels());
    const int64_t elements = Bytes() / 2;
    // Tables and one argument are zeros: the time does not depend on values.
    RotateJob rotate{.element = BlockElement::kBFloat16,
                     .x = values_.get(),
                     .out = copy_.get(),
                     .cos = error_.get(),
                     .sin = error_.get(),
                     .heads = 16,
                     .positions = 1024,
                     .width = 64};
    rotate.head_stride = rotate.width;
    rotate.position_stride = rotate.heads * rotate.head_stride;
    rotate.batch_stride = rotate.positions * rotate.position_stride;
    rotate.batches = static_cast<int32_t>(elements / rotate.batch_stride);
    AgainstCopy(
        "rotate", 2 * Bytes(), [&] { Must(kernels.Rotate(rotate, nullptr)); }, kWaitForAll);
    const GateJob gate{.element = BlockElement::kBFloat16,
                       .elements = elements,
                       .gate = values_.get(),
                       .up = error_.get(),
                       .h = copy_.get(),
                       .h_gradient = copy_.get(),
                       .gate_gradient = training_.get(),
                       .up_gradient = training_.get() + outer_.size()};
    AgainstCopy(
        "swiglu_forward", 3 * Bytes(), [&] { Must(kernels.GateForward(gate, nullptr)); },
        kWaitForAll);
    AgainstCopy(
        "swiglu_backward", 5 * Bytes(), [&] { Must(kernels.GateBackward(gate, nullptr)); },
        kWaitForAll);
  }

  void TrainingBeside(const std::string& name, const CodecOptions& options) {
    const auto codec = MakeCodec(options).value();
    const auto out = Value(device_->AllocatePinned(codec->FragmentBytes(outer_.size())));
    const double alone = StepsPerSecond();
    std::atomic<bool> stop = false;
    std::thread coder([&] {
      while (!stop) Must(device_->Encode(*codec, Input(), out.get()).status());
    });
    const double beside = StepsPerSecond();
    stop = true;
    coder.join();
    Print({.name = "training_beside_" + name,
           .ours = beside,
           .reference = alone,
           .ratio = beside / alone,
           .target = 0.95,
           .unit = "steps/s",
           .note = "reference: the same kernels with no coding beside them"});
  }

 private:
  int64_t Bytes() const { return static_cast<int64_t>(outer_.size() * sizeof(float)); }

  DeviceCodec::Input Input() {
    return {.host_values = outer_,
            .minus = values_.get(),
            .error = error_.get(),
            .lost = copy_.get(),
            .segments = segments_};
  }

  // Device memory of `count` T, with those of `values`.
  template <typename T>
  DeviceFloats OnDevice(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    DeviceFloats memory = Value(device_->AllocateFloats(bytes / 4 + 1));
    Must(device_->runtime().Copy(kCodec, memory.get(), values.data(), bytes));
    Must(device_->runtime().Wait());
    return memory;
  }

  void Kernels(const std::string& name, const CodecOptions& options) {
    const auto codec = MakeCodec(options).value();
    DeviceRuntime& runtime = device_->runtime();
    const int64_t payload = codec->PayloadBytes(kTileElements);
    const int count = static_cast<int>(tiles_);
    const DeviceFloats coded = Value(device_->AllocateFloats(tiles_ * payload / 4 + 1)),
                       reports = Value(device_->AllocateFloats(tiles_ * sizeof(cuda::EncodeReport) /
                                                               sizeof(float)));
    std::vector<cuda::EncodeJob> encoded;
    std::vector<cuda::DecodeJob> decoded;
    std::vector<cuda::ReduceSource> sources;
    for (int64_t t = 0; t < tiles_; ++t) {
      uint8_t* const out = reinterpret_cast<uint8_t*>(coded.get()) + t * payload;
      encoded.push_back({.values = values_.get() + t * kTileElements,
                         .out = out,
                         .noise_key = 1,
                         .noise_first_block = t * kTileBlocks,
                         .elements = static_cast<int32_t>(kTileElements)});
      decoded.push_back({.payload = out,
                         .out = copy_.get() + t * kTileElements,
                         .elements = static_cast<int32_t>(kTileElements),
                         .count = static_cast<int32_t>(kTileElements)});
      for (int source = 0; source < kSources; ++source) sources.push_back({.payload = out});
    }
    const DeviceFloats encode_jobs = OnDevice(encoded), decode_jobs = OnDevice(decoded),
                       all_sources = OnDevice(sources);
    auto* const reported = reinterpret_cast<cuda::EncodeReport*>(reports.get());
    const int64_t payloads = tiles_ * payload;
    AgainstCopy("encode_" + name, Bytes() + payloads, [&] {
      Must(runtime.Encode(options, reinterpret_cast<cuda::EncodeJob*>(encode_jobs.get()), reported,
                          count));
    });
    if (options.stochastic || options.search_scale) return;  // The rest is the same for them.
    AgainstCopy("decode_" + name, payloads + Bytes(), [&] {
      Must(runtime.Decode(options.kind, reinterpret_cast<cuda::DecodeJob*>(decode_jobs.get()),
                          count, 1, /*accumulate=*/false));
    });
    if (options.kind != CodecKind::kInt8 && options.kind != CodecKind::kInt4) return;
    std::vector<cuda::ReduceJob> reduced;
    for (int64_t t = 0; t < tiles_; ++t) {
      reduced.push_back(
          {.sources = reinterpret_cast<cuda::ReduceSource*>(all_sources.get()) + t * kSources,
           .source_count = kSources,
           .elements = static_cast<int32_t>(kTileElements),
           .sum = copy_.get() + t * kTileElements});
    }
    const DeviceFloats reduce_jobs = OnDevice(reduced);
    const SegmentKernels& kernels = *Value(LoadCudaSegmentKernels());
    AgainstCopy(
        "reduce_" + name, kSources * payloads + Bytes(),
        [&] {
          Must(kernels.Reduce(options.kind, reinterpret_cast<cuda::ReduceJob*>(reduce_jobs.get()),
                              reported, count, /*stream=*/nullptr));
        },
        kWaitForAll);
  }

  // Of the default stream, on which kernels are launched that a runtime does not know.
  static constexpr auto kWaitForAll = [] {
    LH_CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess, "kernels");
  };

  // `bytes`: what a launch reads and writes. A copy does that to all floats. Several launches share
  // a wait, whose wake-up would else count as work.
  void AgainstCopy(const std::string& name, int64_t bytes, const std::function<void()>& launch,
                   const std::function<void()>& wait = nullptr) {
    DeviceRuntime& runtime = device_->runtime();
    const Pair seconds = Alternate(
        repetitions_,
        [&] {
          for (int i = 0; i < kLaunches; ++i) launch();
          wait ? wait() : Must(runtime.Wait());
        },
        [&] {
          for (int i = 0; i < kLaunches; ++i)
            Must(runtime.Copy(kCodec, copy_.get(), values_.get(), Bytes()));
          Must(runtime.Wait());
        });
    const double ours = 1e-9 * kLaunches * static_cast<double>(bytes) / seconds.ours,
                 reference =
                     1e-9 * kLaunches * 2 * static_cast<double>(Bytes()) / seconds.reference;
    Print({.name = name,
           .ours = ours,
           .reference = reference,
           .ratio = ours / reference,
           .target = kOfCopyMin,
           .unit = "GB/s",
           .note = "bytes read and written; reference: a copy from device to device"});
  }

  void Contribution(const std::string& name, const CodecOptions& options) {
    const auto codec = MakeCodec(options).value();
    const auto out = Value(device_->AllocatePinned(codec->FragmentBytes(outer_.size())));
    const Pair seconds = Alternate(
        repetitions_, [&] { Must(device_->Encode(*codec, Input(), out.get()).status()); },
        [&] { Must(device_->Upload(outer_, copy_.get())); });
    const double gigabytes = 1e-9 * static_cast<double>(Bytes());
    Print({.name = "contribution_" + name,
           .ours = gigabytes / seconds.ours,
           .reference = gigabytes / seconds.reference,
           .ratio = seconds.reference / seconds.ours,
           .unit = "GB/s",
           .note = "of fp32; reference: the upload of the same bytes"});
  }

  // Of the stand-in, on the default stream, which training uses.
  double StepsPerSecond() {
    const int64_t count = static_cast<int64_t>(outer_.size());
    const auto step = [&] {
      LH_CHECK(EnqueueStep(training_.get(), training_.get() + count, count, nullptr) == cudaSuccess,
               "kernels");
    };
    const int steps = repetitions_ * 10;
    step();
    LH_CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess, "warm-up");
    const double seconds = Seconds([&] {
      for (int i = 0; i < steps; ++i) step();
      LH_CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess, "steps");
    });
    return steps / seconds;
  }

  const std::shared_ptr<DeviceCodec> device_;
  const int64_t tiles_;
  const int repetitions_;
  std::vector<float> outer_;
  const DeviceFloats values_, error_, copy_;
  const DeviceFloats training_ = Value(device_->AllocateFloats(2 * outer_.size()));
  std::vector<DeviceCodec::Segment> segments_;
};

int Main(bool smoke) {
  const auto device = LoadCudaCodec(0);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return absl::IsFailedPrecondition(device.status()) ? 0 : 1;
  }
  CudaCodecBenchmark benchmark(*device, smoke ? 64 : 1024, smoke ? 3 : 15);
  benchmark.Run("e3m0", {.kind = CodecKind::kE3m0});
  benchmark.Run("e3m0_searched", {.kind = CodecKind::kE3m0, .search_scale = true});
  benchmark.Run("e3m0_stochastic", {.kind = CodecKind::kE3m0, .stochastic = true});
  benchmark.Run("int8", {.kind = CodecKind::kInt8});
  benchmark.Run("int8_stochastic", {.kind = CodecKind::kInt8, .stochastic = true});
  benchmark.Run("int6", {.kind = CodecKind::kInt6});
  benchmark.Run("int4", {.kind = CodecKind::kInt4});
  benchmark.Run("int4_searched", {.kind = CodecKind::kInt4, .search_scale = true});
  benchmark.Run("sign1", {.kind = CodecKind::kSign1});
  benchmark.Run("topk2", {.kind = CodecKind::kTopk2});
  benchmark.Run("bf16", {.kind = CodecKind::kBf16});
  benchmark.Run("fp32", {.kind = CodecKind::kFp32});
  benchmark.TransformerKernels();
  benchmark.TrainingBeside("e3m0", {.kind = CodecKind::kE3m0});
  benchmark.TrainingBeside("int8", {.kind = CodecKind::kInt8});
  benchmark.TrainingBeside("topk2", {.kind = CodecKind::kTopk2});
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) {
  return longhaul::benchmark::Main(argc > 1 && std::string(argv[1]) == "--smoke");
}
