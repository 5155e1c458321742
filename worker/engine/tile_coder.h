// Codes runs of float32 elements in 4, 6 or 8 bits (int4, int6, int8 of common/codec/README.md): tile by
// tile, each tile a segment of its own, scales behind its codes. In host memory by the codecs, on a
// device by their kernels on the current stream; both give the same bytes and floats.
//
// Immutable, used from any thread. Does not wait for a device. Throws as torch does.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/cuda/segment_kernels.h"

namespace longhaul {

// What quantizing lost, as sums over elements, and whether all that was to be quantized was finite.
// What a device found stays there until it is asked for. Used from one thread at a time.
class CodingLoss {
 public:
  struct Sums {
    double error_energy = 0, signal_energy = 0;
    bool finite = true;
  };

  void Add(double error_energy, double signal_energy);
  void NoteNotFinite() { sums_.finite = false; }
  // `reports`: EncodeReports in device memory, when what is enqueued is done.
  void AddReports(const at::Tensor& reports);
  // Of what was added since the last call. Waits for the device.
  Sums Take();
  // The same as three float64 on `device`, where the reports lie: error energy, signal energy, how many
  // reports were not finite. Does not wait for it; the caller does before the next call.
  at::Tensor TakeOn(at::Device device);

 private:
  Sums sums_;
  // Added; and taken, perhaps still to be read: they were made on another stream, whose memory it is.
  std::vector<at::Tensor> reports_, taken_;
};

class TileCoder {
 public:
  // `bits`: 4, 6 or 8. `kernels`: of the device that holds the tensors, as long as the coder lives;
  // null: they are in host memory.
  TileCoder(int bits, const SegmentKernels* kernels);

  // Coded bytes of a run; of them, those of codes.
  int64_t Bytes(int64_t elements) const;
  int64_t CodeBytes(int64_t elements) const;

  // Codes values + error into `out`. `error`: float32, gets what coding lost; or undefined. Of a
  // tile that is not finite the output is unspecified, and `loss` says so.
  void Encode(const at::Tensor& values, const at::Tensor& error, const at::Tensor& out,
              CodingLoss& loss) const;
  void Decode(const at::Tensor& coded, const at::Tensor& values) const;

  // A run from one of several senders: coded, or float32 values.
  struct Source {
    at::Tensor coded, values;
  };
  // u = the sum of the sources, in their order, from zero. `sum` gets it, unless undefined; it may
  // be the values of a source. Unless `out` is undefined, u is coded as by Encode.
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
