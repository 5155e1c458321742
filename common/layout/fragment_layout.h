// How a model is cut into fragments, and a fragment's canonical layout: its units one after
// another, each beginning at a multiple of kBlockElements (the gap, if any, holds zeros; nothing
// follows the last unit). The layout is independent of any pool's rank count. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/layout/model_layout.h"

namespace longhaul {

inline constexpr int64_t kBlockElements = 128;   // Codecs scale each block on its own.
inline constexpr int64_t kTileElements = 65536;  // Unit of work and of segments: 512 blocks.
inline constexpr int64_t kTileBlocks = kTileElements / kBlockElements;

struct UnitSpan {
  int unit = 0;        // Index in ModelLayout::units.
  int64_t offset = 0;  // In elements of the fragment; a multiple of kBlockElements.
  int64_t elements = 0;
};

struct FragmentLayout {
  std::string name;  // "embeddings", "layers 0,2,4", "vector 3".
  std::vector<UnitSpan> units;
  int64_t elements = 0;  // End of the last unit.
  int64_t blocks() const { return (elements + kBlockElements - 1) / kBlockElements; }
};

enum class FragmentRule { kBalanced, kStrided, kSequential };

struct FragmentOptions {
  FragmentRule rule = FragmentRule::kBalanced;
  int64_t count = 3;  // kBalanced: fragments of blocks. Others: layers of a fragment.
};

// Fragments in the order of their schedule. Embedding and head units together are one fragment, the
// first. kBalanced: greedy bin packing of the blocks by size, fragments named by their layers
// (Decoupled DiLoCo, "balanced tensor fragmentation"). kStrided: fragment i of P holds layers i,
// i+P, ... (Streaming DiLoCo, section 2.2). kVector units: one fragment each, the options do not
// matter. INVALID_ARGUMENT: more fragments than layers, or a count below 1.
absl::StatusOr<std::vector<FragmentLayout>> CutFragments(const ModelLayout& model,
                                                         const FragmentOptions& options);

// Blocks [first, first + count) of a fragment or unit.
struct BlockRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// The blocks of piece `piece` of `pieces` of a unit of `elements`: contiguous, in order, sizes
// differ by at most one. Each rank of a pool owns one piece (Topology::piece).
BlockRange OwnedBlocks(int64_t elements, int piece, int pieces);

// The blocks of a fragment that a rank owns, which owns `of_unit(unit)` of each unit: ascending,
// neighbours merged.
std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment,
                                    absl::FunctionRef<BlockRange(int unit)> of_unit);
// The same, where it owns piece `piece` of `pieces`.
std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment, int piece, int pieces);

// Elements [first, first + count) of block range `blocks` in something of `elements` elements (the
// last block may be short).
int64_t ElementsOf(const BlockRange& blocks, int64_t elements);
int64_t ElementsOf(const std::vector<BlockRange>& blocks, int64_t elements);

}  // namespace longhaul
