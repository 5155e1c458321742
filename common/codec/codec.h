// How the elements of a fragment become bytes on the wire, and back. The unit of work is a segment:
// a contiguous run of whole blocks (kBlockElements), 1 to kTileElements elements, coded on its own;
// only the last segment of a fragment may have an element count that is not a multiple of a block.
// The byte layouts and the arithmetic are in README.md of this folder.
//
// Immutable and thread-safe; never blocks, holds no buffer. Encoding is deterministic: equal input
// gives equal bytes with every kernel kind. A span that breaks a size rule stated here is our own
// mistake and stops the process, unless the function says that it checks bytes from outside.
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
inline constexpr CodecKind kCodecKinds[] = {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kE3m0,
                                            CodecKind::kInt8, CodecKind::kInt4, CodecKind::kSign1,
                                            CodecKind::kTopk2};

// Both kinds give the same bits; kScalar is the definition in plain code, kSimd picks an
// instruction set at run time.
enum class KernelKind { kScalar = 1, kSimd = 2 };

// All but `kind` and `kernels` concern the encoder only: same format, same decoder.
struct CodecOptions {
  CodecKind kind = CodecKind::kFp32;
  bool search_scale = false;  // e3m0, int4: each block's scale by least error.
  bool stochastic = false;    // e3m0, int8, int4: unbiased rounding instead of to nearest.
  bool rms_scale = false;     // sign1: the norm of a block is kept, instead of least error.
  float feedback_decay = 1;   // In (0, 1]: how much of the error feedback counts again.
  KernelKind kernels = KernelKind::kSimd;
  friend bool operator==(const CodecOptions&, const CodecOptions&) = default;
};

// "fp32", "bf16", "e3m0", ... ; "unknown" for a number that is no kind.
std::string_view CodecName(CodecKind kind);

// What is encoded: u = (values - minus) + feedback_decay * error, each operation rounded. `minus`
// and `error` may be empty; else they have the size of `values`.
struct EncodeInput {
  absl::Span<const float> values, minus = {}, error = {};
};

// The random numbers of a stochastic encoder: those of block b of a segment are a pure function of
// (key, first_block + b). Nobody may encode two different things under one pair.
struct NoiseKey {
  uint64_t key = 0;
  int64_t first_block = 0;
};

// What encoding a segment found out. Energies are measured on one block in eight
// (block_sample.h) and scaled up to the segment.
struct EncodeResult {
  int32_t base_exponent = 0;  // The segment's header parameter.
  double error_energy = 0;    // About the sum of (u - decoded)^2; NMSE = error / signal energy.
  double signal_energy = 0;   // About the sum of u^2.
};

// A coded segment in memory.
struct SegmentView {
  int64_t elements = 0;
  int32_t base_exponent = 0;
  absl::Span<const uint8_t> payload;
};

struct SegmentScratch;  // segment_encoder.h

class Codec {
 public:
  // How a payload is laid out: groups of blocks that are coded together, each with so many bytes in
  // a plane of codes and then in a plane of scales. With groups of one block a payload can be cut
  // at any block.
  struct Planes {
    int64_t blocks_per_group = 1;
    int64_t code_bytes_per_group = 0;
    int64_t scale_bytes_per_group = 0;
  };

  virtual ~Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  const CodecOptions& options() const { return options_; }
  CodecKind kind() const { return options_.kind; }
  std::string_view name() const { return CodecName(options_.kind); }
  // Whether every finite float survives bit for bit.
  bool exact() const { return options_.kind == CodecKind::kFp32; }
  const Planes& planes() const { return planes_; }

  // Coded bytes of a segment of `elements` in [0, kTileElements].
  virtual int64_t PayloadBytes(int64_t elements) const = 0;
  // Coded bytes of a fragment of `elements` in [0, 2^48], cut at the tiles.
  int64_t FragmentBytes(int64_t elements) const;
  // The most that those elements take, however they are cut into segments.
  virtual int64_t FragmentBytesMax(int64_t elements) const = 0;

  // Encodes a segment into `out`, which has PayloadBytes(in.values.size()) bytes. `lost`, unless
  // empty, gets u - decoded(u), rounded once: the error feedback for the next time. It may be one
  // of the spans of `in`; no other spans may overlap. INVALID_ARGUMENT with the index of the first
  // u that is NaN or Inf; `lost` and `out` are then unspecified.
  absl::StatusOr<EncodeResult> Encode(const EncodeInput& in, absl::Span<float> lost,
                                      absl::Span<uint8_t> out, const NoiseKey& noise = {}) const;

  // Checks a segment from outside: its size, the range of base_exponent, reserved codes, padding.
  // After OK, decoding it gives finite values. INVALID_ARGUMENT says what is wrong.
  absl::Status Validate(const SegmentView& segment) const;

  // What no decoded magnitude exceeds, told without decoding; not tight. For segments that
  // Validate() accepts. Infinite: the kind cannot tell.
  virtual float MagnitudeBound(const SegmentView& segment) const = 0;

  // Decodes the blocks of a segment from `first_block` on into `out`: whole blocks, or up to the
  // segment's end. Payloads that Validate() accepts give finite values, any other bytes give some
  // values. INVALID_ARGUMENT: wrong payload size or base_exponent for segment.elements.
  absl::Status Decode(const SegmentView& segment, absl::Span<float> out,
                      int64_t first_block = 0) const;

  // acc += weight * decoded: one multiplication and one addition, each rounded (no fused
  // multiply-add). Else as Decode().
  absl::Status DecodeAccumulate(const SegmentView& segment, float weight, absl::Span<float> acc,
                                int64_t first_block = 0) const;

 protected:
  friend class SegmentEncoder;
  struct ExponentRange {
    int32_t min = 0, max = 0;
  };
  Codec(const CodecOptions& options, const Planes& planes, const ExponentRange& exponents)
      : options_(options), planes_(planes), exponents_(exponents) {}

 private:
  // As the public functions; sizes and base_exponent have been checked. `first_block` and the sizes
  // of a run are those that SegmentEncoder promises.
  virtual void EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                         SegmentScratch& scratch) const = 0;
  virtual EncodeResult FinishSegment(SegmentScratch& scratch) const = 0;
  virtual absl::Status DoValidate(const SegmentView& segment) const = 0;
  virtual void DoDecode(const SegmentView& segment, int64_t first_block,
                        absl::Span<float> out) const = 0;
  virtual void DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                                  absl::Span<float> acc) const = 0;

  absl::Status CheckFrame(const SegmentView& segment) const;

  const CodecOptions options_;
  const Planes planes_;
  const ExponentRange exponents_;
};

// INVALID_ARGUMENT: a number that is no kind, or an option that the kind does not have.
absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecOptions& options);

}  // namespace longhaul
