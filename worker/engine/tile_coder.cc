#include "worker/engine/tile_coder.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/where.h"
#include "absl/algorithm/container.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/layout/fragment_layout.h"
#include "worker/engine/device.h"
#include "worker/engine/tensor_span.h"
#include "worker/model/device_stream.h"

namespace longhaul {
namespace {

struct Tile {
  // Elements.
  int64_t first, count;
  // The place of the coded tile.
  int64_t byte, bytes;
};

template <typename Visit>
void ForTiles(const Codec& codec, int64_t elements, Visit&& visit) {
  Tile tile{};
  for (; tile.first < elements; tile.first += tile.count, tile.byte += tile.bytes) {
    tile.count = std::min(kTileElements, elements - tile.first);
    tile.bytes = codec.PayloadBytes(tile.count);
    visit(tile);
  }
}

SegmentView ViewOf(const Tile& tile, const at::Tensor& coded) {
  return {.elements = tile.count,
          .payload = SpanOf<const uint8_t>(coded).subspan(tile.byte, tile.bytes)};
}

void CheckDecoded(const absl::Status& status) {
  LH_CHECK(status.ok(), "a peer of this pool sent another code");
}

void CheckLaunched(const absl::Status& status) {
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

// Copies plain structs to the memory of a device. The result may be freed once the kernels that
// read it are enqueued: the allocator reuses memory only on the same stream.
template <typename T>
at::Tensor OnDevice(std::vector<T>& structs, at::Device device) {
  const auto bytes = static_cast<int64_t>(structs.size() * sizeof(T));
  return CopyToDevice(at::from_blob(structs.data(), {bytes}, at::kByte), device);
}

at::Tensor MakeReports(size_t count, at::Device device) {
  return at::empty({static_cast<int64_t>(count * sizeof(cuda::EncodeReport))},
                   c10::TensorOptions(at::kByte).device(device));
}

template <typename T>
T* AddressOf(const at::Tensor& tensor, int64_t element) {
  return tensor.defined() ? static_cast<T*>(tensor.data_ptr()) + element : nullptr;
}

}  // namespace

void CodingLoss::Add(double error_energy, double signal_energy) {
  sums_.error_energy += error_energy;
  sums_.signal_energy += signal_energy;
}

void CodingLoss::AddReports(const at::Tensor& reports) { reports_.push_back(reports); }

CodingLoss::Sums CodingLoss::Take() {
  const at::Device device = reports_.empty() ? at::Device(at::kCPU) : reports_.front().device();
  const at::Tensor sums = TakeOn(device).cpu();
  const absl::Span<const double> values = SpanOf<const double>(sums);
  return {.error_energy = values[0], .signal_energy = values[1], .finite = values[2] == 0};
}

at::Tensor CodingLoss::TakeOn(at::Device device) {
  const Sums found = std::exchange(sums_, {});
  const double of_host[] = {found.error_energy, found.signal_energy, found.finite ? 0.0 : 1.0};
  at::Tensor sums = at::empty({3}, c10::TensorOptions(at::kDouble));
  absl::c_copy(of_host, SpanOf<double>(sums).begin());
  if (!device.is_cpu()) sums = CopyToDevice(sums, device);
  if (reports_.empty()) return sums;
  // Views the reports as columns: int32 base_exponent and first_bad, then float64 error_energy and
  // signal_energy.
  static_assert(sizeof(cuda::EncodeReport) == 24 && offsetof(cuda::EncodeReport, first_bad) == 4 &&
                offsetof(cuda::EncodeReport, error_energy) == 8 &&
                offsetof(cuda::EncodeReport, signal_energy) == 16);
  taken_ = std::exchange(reports_, {});
  const at::Tensor all = at::cat(taken_);
  const at::Tensor bad = all.view(at::kInt).view({-1, 6}).narrow(1, 1, 1).ge(0);
  const at::Tensor energies = all.view(at::kDouble).view({-1, 3}).narrow(1, 1, 2);
  sums.narrow(0, 0, 2).add_(at::where(bad, 0.0, energies).sum(0));
  sums.narrow(0, 2, 1).add_(bad.sum());
  return sums;
}

TileCoder::TileCoder(int bits, const SegmentKernels* kernels)
    : codec_(MakeCodec({.kind = IntegerCodec(bits)}).value()), bits_(bits), kernels_(kernels) {}

int64_t TileCoder::Bytes(int64_t elements) const { return codec_->FragmentBytes(elements); }

int64_t TileCoder::CodeBytes(int64_t elements) const {
  int64_t bytes = 0;
  ForTiles(*codec_, elements, [&](const Tile& tile) { bytes += CeilDiv(tile.count * bits_, 8); });
  return bytes;
}

void TileCoder::EncodeTile(const EncodeInput& in, absl::Span<float> error, absl::Span<uint8_t> out,
                           CodingLoss& loss) const {
  const auto coded = codec_->Encode(in, error, out);
  if (!coded.ok()) return loss.NoteNotFinite();
  loss.Add(coded->error_energy, coded->signal_energy);
}

void TileCoder::Encode(const at::Tensor& values, const at::Tensor& error, const at::Tensor& out,
                       CodingLoss& loss) const {
  if (kernels_ != nullptr) {
    std::vector<cuda::EncodeJob> jobs;
    ForTiles(*codec_, values.numel(), [&](const Tile& tile) {
      jobs.push_back({.values = AddressOf<float>(values, tile.first),
                      .error = AddressOf<float>(error, tile.first),
                      .lost = AddressOf<float>(error, tile.first),
                      .out = AddressOf<uint8_t>(out, tile.byte),
                      .elements = static_cast<int32_t>(tile.count)});
    });
    if (jobs.empty()) return;
    const at::Tensor table = OnDevice(jobs, values.device());
    const at::Tensor reports = MakeReports(jobs.size(), values.device());
    CheckLaunched(kernels_->Encode(codec_->options(), AddressOf<cuda::EncodeJob>(table, 0),
                                   AddressOf<cuda::EncodeReport>(reports, 0),
                                   static_cast<int>(jobs.size()), CurrentStream(values.device())));
    return loss.AddReports(reports);
  }
  const absl::Span<const float> all = SpanOf<const float>(values);
  ForTiles(*codec_, values.numel(), [&](const Tile& tile) {
    absl::Span<float> lost;
    if (error.defined()) lost = SpanOf<float>(error).subspan(tile.first, tile.count);
    EncodeTile({.values = all.subspan(tile.first, tile.count), .error = lost}, lost,
               SpanOf<uint8_t>(out).subspan(tile.byte, tile.bytes), loss);
  });
}

void TileCoder::Decode(const at::Tensor& coded, const at::Tensor& values) const {
  if (kernels_ != nullptr) {
    std::vector<cuda::DecodeJob> jobs;
    ForTiles(*codec_, values.numel(), [&](const Tile& tile) {
      jobs.push_back({.payload = AddressOf<uint8_t>(coded, tile.byte),
                      .out = AddressOf<float>(values, tile.first),
                      .elements = static_cast<int32_t>(tile.count),
                      .count = static_cast<int32_t>(tile.count)});
    });
    if (jobs.empty()) return;
    const at::Tensor table = OnDevice(jobs, values.device());
    return CheckLaunched(kernels_->Decode(codec_->kind(), AddressOf<cuda::DecodeJob>(table, 0),
                                          static_cast<int>(jobs.size()),
                                          CurrentStream(values.device())));
  }
  ForTiles(*codec_, values.numel(), [&](const Tile& tile) {
    CheckDecoded(
        codec_->Decode(ViewOf(tile, coded), SpanOf<float>(values).subspan(tile.first, tile.count)));
  });
}

void TileCoder::Reduce(absl::Span<const Source> sources, int64_t elements, const at::Tensor& sum,
                       const at::Tensor& error, const at::Tensor& out, CodingLoss& loss) const {
  if (kernels_ != nullptr) return ReduceOnDevice(sources, elements, sum, error, out, loss);
  // One tile: it stays in the cache between decoding and encoding.
  std::vector<float> tile_sum(std::min(elements, kTileElements));
  ForTiles(*codec_, elements, [&](const Tile& tile) {
    const absl::Span<float> u = absl::MakeSpan(tile_sum).subspan(0, tile.count);
    std::fill(u.begin(), u.end(), 0.0f);
    for (const Source& source : sources) {
      if (source.coded.defined()) {
        CheckDecoded(codec_->DecodeAccumulate(ViewOf(tile, source.coded), 1, u));
        continue;
      }
      const float* const addend = AddressOf<const float>(source.values, tile.first);
      for (int64_t i = 0; i < tile.count; ++i) u[i] += addend[i];
    }
    if (sum.defined())
      std::memcpy(AddressOf<float>(sum, tile.first), u.data(), u.size() * sizeof(float));
    if (!out.defined()) return;
    absl::Span<float> lost;
    if (error.defined()) lost = SpanOf<float>(error).subspan(tile.first, tile.count);
    EncodeTile({.values = u, .error = lost}, lost,
               SpanOf<uint8_t>(out).subspan(tile.byte, tile.bytes), loss);
  });
}

void TileCoder::ReduceOnDevice(absl::Span<const Source> sources, int64_t elements,
                               const at::Tensor& sum, const at::Tensor& error,
                               const at::Tensor& out, CodingLoss& loss) const {
  const at::Device device =
      (sources[0].coded.defined() ? sources[0].coded : sources[0].values).device();
  std::vector<cuda::ReduceSource> parts;
  ForTiles(*codec_, elements, [&](const Tile& tile) {
    for (const Source& source : sources) {
      parts.push_back({.payload = AddressOf<uint8_t>(source.coded, tile.byte),
                       .values = AddressOf<float>(source.values, tile.first)});
    }
  });
  if (parts.empty()) return;
  const at::Tensor part_table = OnDevice(parts, device);
  std::vector<cuda::ReduceJob> jobs;
  ForTiles(*codec_, elements, [&](const Tile& tile) {
    const auto first_part = static_cast<int64_t>(jobs.size() * sources.size());
    jobs.push_back({.sources = AddressOf<cuda::ReduceSource>(part_table, 0) + first_part,
                    .source_count = static_cast<int32_t>(sources.size()),
                    .elements = static_cast<int32_t>(tile.count),
                    .sum = AddressOf<float>(sum, tile.first),
                    .error = AddressOf<float>(error, tile.first),
                    .lost = AddressOf<float>(error, tile.first),
                    .out = AddressOf<uint8_t>(out, tile.byte)});
  });
  const at::Tensor table = OnDevice(jobs, device);
  const at::Tensor reports = MakeReports(jobs.size(), device);
  CheckLaunched(kernels_->Reduce(codec_->kind(), AddressOf<cuda::ReduceJob>(table, 0),
                                 AddressOf<cuda::EncodeReport>(reports, 0),
                                 static_cast<int>(jobs.size()), CurrentStream(device)));
  if (out.defined()) loss.AddReports(reports);
}

}  // namespace longhaul
