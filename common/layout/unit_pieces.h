// How the units of a model are cut into pieces, one for each rank of a pool. All ranks, and all
// code that exchanges what ranks own, cut by the same rule. Pure functions.
#pragma once

#include <vector>

#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"

namespace longhaul {

enum class CutRule {
  // As OwnedBlocks: evenly, at any block.
  kBlocks,
  // Every hidden matrix (TensorLayout::matrix) is whole in one piece.
  kMatrices,
};

// In tensors of one dimension, which are always sent exactly.
int64_t VectorElements(const UnitLayout& unit);

struct MatrixCount {
  // Of hidden matrices.
  int64_t matrices = 0, elements = 0;
  // Elements of everything else.
  int64_t rest = 0;
};
MatrixCount CountMatrices(const ModelLayout& model);

// By unit, by piece: contiguous, ascending, without gaps. Pieces may be empty. kMatrices: units
// with hidden matrices are cut between tensors, where a block begins; tensors that share a block
// stay together. The cuts make the pieces' work over all units as even as possible, counted in
// multiplications of the matrices' orthogonalization. Other units are cut as with kBlocks.
std::vector<std::vector<BlockRange>> CutUnits(const ModelLayout& model, int pieces, CutRule rule);

}  // namespace longhaul
