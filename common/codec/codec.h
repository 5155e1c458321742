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
  kTopk2 = 7,
  kInt6 = 8
};

// The codecs of this program. Names, and what workers say that they can do, follow from the rows.
struct CodecRow {
  CodecKind kind;
  std::string_view name;
  // Of an integer codec: the bits per element by which ranks of a pool ask for it (IntegerCodec).
  int pool_bits = 0;
};
inline constexpr CodecRow kCodecs[] = {
    {CodecKind::kFp32, "fp32"},    {CodecKind::kBf16, "bf16"},    {CodecKind::kE3m0, "e3m0"},
    {CodecKind::kInt8, "int8", 8}, {CodecKind::kInt4, "int4", 4}, {CodecKind::kSign1, "sign1"},
    {CodecKind::kTopk2, "topk2"},  {CodecKind::kInt6, "int6", 6},
};

// Both kinds give the same bits. kScalar is the definition, in plain code. kSimd picks an
// instruction set at run time.
enum class KernelKind { kScalar = 1, kSimd = 2 };

// All but `kind` and `kernels` concern only the encoder: format and decoder are the same.
struct CodecOptions {
  CodecKind kind = CodecKind::kFp32;
  // e3m0, int4: searches the scale with the least error for each block.
  bool search_scale = false;
  // e3m0, int8, int4: rounds without bias instead of to nearest.
  bool stochastic = false;
  // sign1: keeps the norm of a block, instead of the least error.
  bool rms_scale = false;
  // In (0, 1]: factor of the error feedback.
  float feedback_decay = 1;
  KernelKind kernels = KernelKind::kSimd;
  friend bool operator==(const CodecOptions&, const CodecOptions&) = default;
};

// "fp32", "bf16", "e3m0", ... ; "unknown" for a number that is no kind.
std::string_view CodecName(CodecKind kind);

// The input of an encoder is u = (values - minus) + feedback_decay * error, each operation rounded.
// `minus` and `error` may be empty; otherwise they have the size of `values`.
struct EncodeInput {
  absl::Span<const float> values, minus = {}, error = {};
};

// Selects the random numbers of a stochastic encoder. Those of block b of a segment are a pure
// function of (key, first_block + b). Different data must never be encoded with the same pair.
struct NoiseKey {
  uint64_t key = 0;
  int64_t first_block = 0;
};

// What encoding a segment measured. Energies are measured on one block in eight (block_sample.h)
// and scaled up to the segment.
struct EncodeResult {
  // Goes into the header of the segment.
  int32_t base_exponent = 0;
  // About the sum of (u - decoded)^2; NMSE = error / signal energy.
  double error_energy = 0;
  // About the sum of u^2.
  double signal_energy = 0;
};

// A coded segment in memory.
struct SegmentView {
  int64_t elements = 0;
  int32_t base_exponent = 0;
  absl::Span<const uint8_t> payload;
};

// See segment_encoder.h.
struct SegmentScratch;

class Codec {
 public:
  // The layout of a payload: groups of blocks that are coded together. Each group has so many bytes
  // in a plane of codes, and then in a plane of scales. If a group is one block, a payload can be
  // cut at any block.
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

  // Coded bytes of a segment of `elements`, which is in [0, kTileElements].
  virtual int64_t PayloadBytes(int64_t elements) const = 0;
  // Coded bytes of a fragment of `elements`, which is in [0, 2^48], cut at the tiles.
  int64_t FragmentBytes(int64_t elements) const;
  // The most bytes that those elements can take, however they are cut into segments.
  virtual int64_t FragmentBytesMax(int64_t elements) const = 0;

  // Encodes a segment into `out`, which has PayloadBytes(in.values.size()) bytes. Unless `lost` is
  // empty it receives u - decoded(u), rounded once: the error feedback for the next time. It may be
  // one of the spans of `in`; no other spans may overlap. INVALID_ARGUMENT with the index of the
  // first u that is NaN or Inf; then `lost` and `out` are unspecified.
  absl::StatusOr<EncodeResult> Encode(const EncodeInput& in, absl::Span<float> lost,
                                      absl::Span<uint8_t> out, const NoiseKey& noise = {}) const;

  // Checks a segment from outside: its size, the range of base_exponent, reserved codes, padding.
  // After OK, decoding it gives finite values. INVALID_ARGUMENT says what is wrong.
  absl::Status Validate(const SegmentView& segment) const;

  // An upper bound of the decoded magnitudes, found without decoding; it is not tight. The segment
  // must be one that Validate() accepts. Infinite if the kind cannot tell.
  virtual float MagnitudeBound(const SegmentView& segment) const = 0;

  // Decodes the blocks of a segment from `first_block` on into `out`: whole blocks, or up to the
  // segment's end. Payloads that Validate() accepts give finite values; any other bytes give
  // arbitrary values. INVALID_ARGUMENT: the payload size or base_exponent is wrong for
  // segment.elements.
  absl::Status Decode(const SegmentView& segment, absl::Span<float> out,
                      int64_t first_block = 0) const;

  // acc += weight * decoded: one multiplication and one addition, each rounded (no fused
  // multiply-add). Otherwise as Decode().
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
  // The work of the public functions, which have checked sizes and base_exponent. SegmentEncoder
  // guarantees what `first_block` and the sizes of a run can be.
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

// The kind that codes an element in so many bits, with a scale for each block: 4, 6 or 8.
CodecKind IntegerCodec(int bits);

// INVALID_ARGUMENT: the number is not a kind, or the kind does not have an option.
absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecOptions& options);

}  // namespace longhaul
