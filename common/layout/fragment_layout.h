// How a model is cut into fragments, and a fragment's canonical layout: its units one after
// another, each beginning at a multiple of kBlockElements. A gap between units holds zeros; nothing
// follows the last unit. The layout does not depend on any pool's number of ranks. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// Codecs scale each block on its own.
inline constexpr int64_t kBlockElements = 128;
// Unit of work and of segments: 512 blocks.
inline constexpr int64_t kTileElements = 65536;
inline constexpr int64_t kTileBlocks = kTileElements / kBlockElements;

struct UnitSpan {
  // Index in ModelLayout::units.
  int unit = 0;
  // In elements of the fragment; a multiple of kBlockElements.
  int64_t offset = 0;
  int64_t elements = 0;
};

struct FragmentLayout {
  // For example "embeddings", "layers 0,2,4", "vector 3".
  std::string name;
  std::vector<UnitSpan> units;
  // The end of the last unit.
  int64_t elements = 0;
  int64_t blocks() const { return (elements + kBlockElements - 1) / kBlockElements; }
};

enum class FragmentRule { kBalanced, kStrided, kSequential };

struct FragmentOptions {
  FragmentRule rule = FragmentRule::kBalanced;
  // For kBalanced, the number of fragments of blocks. For the others, the number of layers in a
  // fragment.
  int64_t count = 3;
};

// Returns the fragments in the order of their schedule. Embedding and head units together are the
// first fragment. kBalanced: greedy bin packing of the blocks by size; fragments are named by their
// layers (Decoupled DiLoCo, "balanced tensor fragmentation"). kStrided: fragment i of P has layers
// i, i+P, ... (Streaming DiLoCo, section 2.2). kVector units: one fragment each; the options do not
// matter. INVALID_ARGUMENT: more fragments than layers, or a count below 1.
absl::StatusOr<std::vector<FragmentLayout>> CutFragments(const ModelLayout& model,
                                                         const FragmentOptions& options);

// Blocks [first, first + count) of a fragment or unit.
struct BlockRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// The blocks of piece `piece` of `pieces` of a unit with `elements`: contiguous and in order. Their
// sizes differ by at most one. Each rank of a pool owns one piece (Topology::piece).
BlockRange OwnedBlocks(int64_t elements, int piece, int pieces);

// The blocks of a fragment that a rank owns, if it owns `of_unit(unit)` of each unit: ascending,
// neighbours merged.
std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment,
                                    absl::FunctionRef<BlockRange(int unit)> of_unit);
// The same for a rank that owns piece `piece` of `pieces`.
std::vector<BlockRange> OwnedBlocks(const FragmentLayout& fragment, int piece, int pieces);

int64_t BlocksIn(absl::Span<const BlockRange> ranges);

// The number of elements of `blocks`, of something with `elements` elements (the last block may be
// short).
int64_t ElementsOf(const BlockRange& blocks, int64_t elements);
int64_t ElementsOf(const std::vector<BlockRange>& blocks, int64_t elements);

}  // namespace longhaul
