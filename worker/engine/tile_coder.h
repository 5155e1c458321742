// Codes runs of float32 elements in 4, 6 or 8 bits (int4, int6, int8 of common/codec/README.md),
// tile by tile. Each tile is a segment; its scales follow its codes. In host memory the codecs do
// it, on a device their kernels on the current stream. Both give the same bytes and floats.
//
// Immutable, so thread-safe. Does not wait for a device. Throws as torch does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/segment_kernels.h"

namespace longhaul {

// The errors of quantization, as sums over elements, and whether all values were finite. Results of
// a device stay there until somebody asks for them. Called from one thread at a time.
class CodingLoss {
 public:
  struct Sums {
    double error_energy = 0, signal_energy = 0;
    bool finite = true;
  };

  void Add(double error_energy, double signal_energy);
  void NoteNotFinite() { sums_.finite = false; }
  // `reports`: EncodeReports in device memory, which are complete when the enqueued work is done.
  void AddReports(const at::Tensor& reports);
  // The sums of everything that was added since the last call. Waits for the device.
  Sums Take();
  // The same as three float64 values on `device`, where the reports lie: error energy, signal
  // energy, number of reports that were not finite. Does not wait for the device; the caller must
  // do so before the next call.
  at::Tensor TakeOn(at::Device device);

 private:
  Sums sums_;
  // reports_ were added. taken_ are kept until the device has read them: their memory belongs to
  // another stream.
  std::vector<at::Tensor> reports_, taken_;
};

class TileCoder {
 public:
  // `bits`: 4, 6 or 8. `kernels`: those of the tensors' device; they outlive the coder. Null:
  // tensors are in host memory.
  TileCoder(int bits, const SegmentKernels* kernels);

  // The bytes of a coded run; and how many of them are codes, not scales.
  int64_t Bytes(int64_t elements) const;
  int64_t CodeBytes(int64_t elements) const;

  // Codes values + error into `out`. `error`, float32, receives the coding error; it may be
  // undefined. If a tile is not finite, its output is unspecified, and `loss` notes it.
  void Encode(const at::Tensor& values, const at::Tensor& error, const at::Tensor& out,
              CodingLoss& loss) const;
  void Decode(const at::Tensor& coded, const at::Tensor& values) const;

  // A run from one of several senders: coded, or float32 values.
  struct Source {
    at::Tensor coded, values;
  };
  // u = ((0 + source 0) + source 1) + ... in float32. Writes u to `sum`, if that is defined; it may
  // be the values of a source. Codes u into `out` as Encode does, if that is defined.
  void Reduce(absl::Span<const Source> sources, int64_t elements, const at::Tensor& sum,
              const at::Tensor& error, const at::Tensor& out, CodingLoss& loss) const;

 private:
  void ReduceOnDevice(absl::Span<const Source> sources, int64_t elements, const at::Tensor& sum,
                      const at::Tensor& error, const at::Tensor& out, CodingLoss& loss) const;
  void EncodeTile(const EncodeInput& in, absl::Span<float> error, absl::Span<uint8_t> out,
                  CodingLoss& loss) const;

  const std::unique_ptr<const Codec> codec_;
  const int bits_;
  const SegmentKernels* const kernels_;
};

}  // namespace longhaul
