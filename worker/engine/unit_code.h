// How the elements of a unit cross between ranks: its pieces one after another, each coded on its
// own, so that a rank can pass on pieces that it did not code. In a piece: its vectors' elements in
// float32, then those of its matrices in `bits`; scales travel with what they scale (int4, int6, int8 of
// common/codec/README.md), and zeros follow up to a multiple of kAlignment.
//
// Immutable, used from any thread. Does not wait for a device. Throws as torch does. Tensors may lie
// on any device if bits are 16 or 32, else where the tile coder works.
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
  at::Tensor flat;  // float32 or bf16: elements [first, first + numel) of the unit.
  int64_t first = 0;
  // float32: the unit's vectors alone, one after another. Undefined: they are in `flat`.
  at::Tensor vectors;
};

// A run of elements of one kind.
struct KindRun {
  ElementRange range;          // Of the unit.
  bool vector = false;         // Tensors of one dimension: they cross exactly.
  int64_t vectors_before = 0;  // Elements of vectors in the unit before this run.
};
// A unit's elements, neighbours of one kind joined.
std::vector<KindRun> RunsOf(const UnitLayout& layout);
int64_t VectorElements(const UnitLayout& layout);

class UnitCode {
 public:
  static constexpr int64_t kAlignment = 16;

  // `bits`: 4, 6, 8, 16 or 32. `kernels`: see TileCoder.
  UnitCode(const UnitLayout& layout, absl::Span<const ElementRange> pieces, int bits,
           const SegmentKernels* kernels = nullptr);

  int bits() const { return bits_; }
  // Of the coded unit.
  int64_t bytes() const { return pieces_.back().part.offset + pieces_.back().part.size; }
  // Where these pieces lie in it.
  Part PartOf(const PieceRange& pieces) const;
  // Of it: what is neither an element nor the code of one.
  int64_t ScaleBytes(const PieceRange& pieces) const;

  // Codes pieces of `from` into their parts of `to`, which begins with the piece `to_first` of the
  // coded unit. `error`, unless undefined, is a bf16 tensor of the pieces' elements: it is added
  // before coding, and gets what coding lost (bits 4, 6 and 8). `loss` is added to; of what is not
  // finite bits 4, 6 and 8 make something unspecified, others pass it on.
  void Encode(const PieceRange& pieces, const UnitValues& from, const at::Tensor& to, int to_first,
              const at::Tensor& error, CodingLoss& loss) const;
  // The other way round.
  void Decode(const PieceRange& pieces, const at::Tensor& from, int from_first,
              const UnitValues& to) const;

  // What one of several ranks adds to a sum of pieces: coded, beginning with the piece `first` of
  // the unit; or, if that is undefined, float32 values.
  struct Addend {
    at::Tensor coded;
    int first = 0;
    UnitValues values;
  };
  // Sums pieces in the order of the addends, in float32, from zero. The sum goes to `sum`, float32,
  // which may be an addend's values; or, if `to` is defined, as coded pieces there, as by Encode.
  void Reduce(const PieceRange& pieces, absl::Span<const Addend> addends, const UnitValues& sum,
              const at::Tensor& to, int to_first, const at::Tensor& error, CodingLoss& loss) const;

 private:
  struct Section {
    KindRun run;
    int64_t offset = 0, size = 0;  // In the coded unit.
  };
  struct Piece {
    Part part;
    int64_t scale_bytes = 0;
    ElementRange range;
    std::vector<Section> sections;
  };

  template <typename Visit>
  void ForSections(const PieceRange& pieces, Visit&& visit) const;
  // Whether its elements are quantized.
  bool IsCoded(const Section& section) const { return !section.run.vector && bits_ < 16; }
  // Where a section lies in coded pieces from `first` on.
  at::Tensor BytesOf(const Section& section, const at::Tensor& coded, int first) const {
    return coded.narrow(0, section.offset - pieces_[first].part.offset, section.size);
  }
  // The elements of a section that is not quantized, in coded bytes.
  at::Tensor FloatsIn(const Section& section, const at::Tensor& bytes) const;
  void ReduceSection(const Section& section, absl::Span<const Addend> addends,
                     const UnitValues& sum, const at::Tensor& bytes, const at::Tensor& error,
                     CodingLoss& loss) const;

  int bits_;
  std::unique_ptr<const TileCoder> coder_;  // Of bits 4, 6 and 8.
  std::vector<Piece> pieces_;
};

}  // namespace longhaul
