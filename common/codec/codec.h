// How the elements of a fragment become bytes on the wire, and back. The unit of work is a segment:
// a contiguous run of whole blocks (kBlockElements), 1 to kTileElements elements, coded on its own;
// only the last segment of a fragment may have an element count that is not a multiple of a block.
// A payload is a plane of codes, then a plane of scales; the byte layouts and the arithmetic are in
// README.md of this folder.
//
// Immutable and thread-safe; never blocks, holds no buffer. Encoding is deterministic: equal input
// gives equal bytes with every kernel kind. Spans of one call must not overlap. A span that breaks
// a size rule stated here is our own mistake and stops the process, unless the function says that
// it checks bytes from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul {

// Numbers equal longhaul.v1.Codec.
enum class CodecKind {
  kFp32 = 1,
  kBf16 = 2,
  kE3m0 = 3,
  kInt8 = 4,
  kInt4 = 5,
  kSign1 = 6,
  kTopk2 = 7
};

// Both kinds give the same bits; kScalar is the definition in plain code, kSimd picks an
// instruction set at run time.
enum class KernelKind { kScalar = 1, kSimd = 2 };

struct CodecOptions {
  CodecKind kind = CodecKind::kFp32;
  bool search_scale =
      false;  // e3m0 encoder: choose each block's scale by least error. Same format, same decoder.
  KernelKind kernels = KernelKind::kSimd;
};

// "fp32", "bf16", "e3m0", ... ; "unknown" for a number that is no kind.
std::string_view CodecName(CodecKind kind);

// What encoding a segment found out.
struct EncodeResult {
  int32_t base_exponent = 0;  // The segment's header parameter.
  double error_energy =
      0;  // Sum of (u - decoded)^2 of what was encoded; NMSE = error_energy / signal_energy.
  double signal_energy = 0;  // Sum of u^2, to about 1e-6 relative, in a fixed order of summation.
};

class Codec {
 public:
  // Bytes that a whole block takes in each plane: enough to cut a payload at block boundaries.
  struct Planes {
    int64_t code_bytes_per_block = 0;
    int64_t scale_bytes_per_block = 0;
  };

  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  CodecKind kind() const { return traits_.kind; }
  std::string_view name() const { return CodecName(traits_.kind); }
  // Whether every finite float survives bit for bit.
  bool exact() const { return traits_.exact; }
  Planes planes() const { return traits_.planes; }

  // Coded bytes of `elements` in [0, 2^48]: of one segment, or of any run of segments, since it is
  // additive over cuts at block boundaries.
  int64_t PayloadBytes(int64_t elements) const;

  // Encodes the segment `in` into `out`, which has PayloadBytes(in.size()) bytes. INVALID_ARGUMENT
  // with the index of the first NaN or Inf; `out` is then unspecified.
  absl::StatusOr<EncodeResult> Encode(absl::Span<const float> in, absl::Span<uint8_t> out) const;

  // Encodes u = in + error and sets error = u - decoded(u); decoded + error == u holds exactly. The
  // energies are those of u. INVALID_ARGUMENT when a u is NaN or Inf; `error` is then unchanged.
  absl::StatusOr<EncodeResult> EncodeWithFeedback(absl::Span<const float> in,
                                                  absl::Span<float> error,
                                                  absl::Span<uint8_t> out) const;

  // Checks a segment from outside: its size, the range of base_exponent, reserved codes, padding.
  // After OK, decoding it gives finite values. INVALID_ARGUMENT says what is wrong.
  absl::Status Validate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                        int64_t elements) const;

  // Decodes a segment into `out`. Payloads that Validate() accepts give finite values, any other
  // bytes give some values. INVALID_ARGUMENT: wrong payload size or base_exponent for out.size()
  // elements.
  absl::Status Decode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                      absl::Span<float> out) const;

  // acc += weight * decoded: one multiplication and one addition, each rounded (no fused
  // multiply-add). Else as Decode().
  absl::Status DecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                                float weight, absl::Span<float> acc) const;

 protected:
  struct Traits {
    CodecKind kind;
    bool exact;
    Planes planes;
    int32_t base_exponent_min, base_exponent_max;
  };
  explicit Codec(const Traits& traits) : traits_(traits) {}

 private:
  // As the public functions; sizes and base_exponent have been checked.
  virtual absl::StatusOr<EncodeResult> DoEncode(absl::Span<const float> in,
                                                absl::Span<uint8_t> out) const = 0;
  virtual absl::StatusOr<EncodeResult> DoEncodeWithFeedback(absl::Span<const float> in,
                                                            absl::Span<float> error,
                                                            absl::Span<uint8_t> out) const = 0;
  virtual absl::Status DoValidate(absl::Span<const uint8_t> payload, int64_t elements) const = 0;
  virtual void DoDecode(int32_t base_exponent, absl::Span<const uint8_t> payload,
                        absl::Span<float> out) const = 0;
  virtual void DoDecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> payload,
                                  float weight, absl::Span<float> acc) const = 0;

  absl::Status CheckFrame(int32_t base_exponent, int64_t payload_bytes, int64_t elements) const;

  const Traits traits_;
};

// UNIMPLEMENTED: a kind that this build lacks (the message lists those that it has).
// INVALID_ARGUMENT: a number that is no kind, or search_scale for a codec other than e3m0.
absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecOptions& options);

}  // namespace longhaul
