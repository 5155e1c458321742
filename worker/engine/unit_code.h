// The form in which ranks send each other the elements of a unit: its pieces one after another.
// Each piece is coded on its own, so that a rank can forward pieces that another rank coded. A
// piece has the elements of its vectors in float32, then those of its matrices in `bits`, with
// their scales (int4, int6, int8 of common/codec/README.md), and zeros up to a multiple of
// kAlignment.
//
// Immutable, so thread-safe. Does not wait for a device. Throws as torch does. With 16 or 32 bits
// tensors may lie on any device, otherwise on the device of the tile coder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"
#include "worker/collective/parts.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/tile_coder.h"

namespace longhaul {

// Elements of a unit in memory.
struct UnitValues {
  // float32 or bf16: elements [first, first + numel) of the unit.
  at::Tensor flat;
  int64_t first = 0;
  // float32: the elements of the unit's vectors, one vector after another. Undefined: they are in
  // `flat`.
  at::Tensor vectors;
};

// A run of elements of one kind.
struct KindRun {
  // In elements of the unit.
  ElementRange range;
  // Tensors of one dimension, which are sent exactly.
  bool vector = false;
  // How many elements of vectors the unit has before this run.
  int64_t vectors_before = 0;
};
// The runs of a unit: neighbours of one kind are joined.
std::vector<KindRun> RunsOf(const UnitLayout& layout);

class UnitCode {
 public:
  static constexpr int64_t kAlignment = 16;

  // `bits`: 4, 6, 8, 16 or 32. `kernels`: see TileCoder. `error_beta`: PartitionMap::error_beta.
  UnitCode(const UnitLayout& layout, absl::Span<const ElementRange> pieces, int bits,
           const SegmentKernels* kernels = nullptr, double error_beta = 0);

  int bits() const { return bits_; }
  // The size of the coded unit.
  int64_t bytes() const { return pieces_.back().part.offset + pieces_.back().part.size; }
  // The place of these pieces in the coded unit, in bytes.
  Part PartOf(const PieceRange& pieces) const;
  // How many of these bytes are scales and padding.
  int64_t ScaleBytes(const PieceRange& pieces) const;

  // Codes pieces of `from` into their parts of `to`, which begins with piece `to_first` of the
  // coded unit. `error` is a bf16 tensor for the pieces' elements, or undefined: it is added before
  // coding, and then becomes error_beta times itself plus (1 - error_beta) times the coding error
  // (bits 4, 6 and 8). `loss` receives the errors. Values that are not finite become unspecified
  // with bits 4, 6 and 8, and are sent as they are with 16 and 32.
  void Encode(const PieceRange& pieces, const UnitValues& from, const at::Tensor& to, int to_first,
              const at::Tensor& error, CodingLoss& loss) const;
  // The reverse of Encode: pieces of `from`, which begins with piece `from_first`, to values.
  void Decode(const PieceRange& pieces, const at::Tensor& from, int from_first,
              const UnitValues& to) const;

  // One rank's addend in a sum of pieces: `coded`, which begins with piece `first` of the unit; or,
  // if that is undefined, float32 `values`.
  struct Addend {
    at::Tensor coded;
    int first = 0;
    UnitValues values;
  };
  // Sums pieces in the order of the addends, in float32, from zero. Writes the sum to `sum`,
  // float32, which may be the values of an addend. If `to` is defined, writes the coded sum there
  // instead, as Encode does.
  void Reduce(const PieceRange& pieces, absl::Span<const Addend> addends, const UnitValues& sum,
              const at::Tensor& to, int to_first, const at::Tensor& error, CodingLoss& loss) const;

 private:
  struct Section {
    KindRun run;
    // The place in the coded unit, in bytes.
    int64_t offset = 0, size = 0;
  };
  struct Piece {
    Part part;
    int64_t scale_bytes = 0;
    ElementRange range;
    std::vector<Section> sections;
  };

  template <typename Visit>
  void ForSections(const PieceRange& pieces, Visit&& visit) const;
  // Whether the section's elements are quantized.
  bool IsCoded(const Section& section) const { return !section.run.vector && bits_ < 16; }
  // A section in coded pieces that begin with piece `first`.
  at::Tensor BytesOf(const Section& section, const at::Tensor& coded, int first) const {
    return coded.narrow(0, section.offset - pieces_[first].part.offset, section.size);
  }
  // The elements of a section that is not quantized, in coded bytes.
  at::Tensor FloatsIn(const Section& section, const at::Tensor& bytes) const;
  void ReduceSection(const Section& section, absl::Span<const Addend> addends,
                     const UnitValues& sum, const at::Tensor& bytes, const at::Tensor& error,
                     CodingLoss& loss) const;

  int bits_;
  double error_beta_;
  // Only with 4, 6 and 8 bits.
  std::unique_ptr<const TileCoder> coder_;
  std::vector<Piece> pieces_;
};

}  // namespace longhaul
