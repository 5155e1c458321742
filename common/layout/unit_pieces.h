// How the units of a model are cut into pieces, one for each rank of a pool. Every rank, and who
// exchanges what ranks own, cuts by the same rule. Pure functions.
#pragma once

#include <vector>

#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"

namespace longhaul {

enum class CutRule {
  kBlocks,    // As OwnedBlocks: evenly, wherever a block begins.
  kMatrices,  // Every hidden matrix is whole in one piece.
};

// Whether an optimizer that works on whole matrices updates this one as such: it lies inside a
// block of the decoder. Embeddings and output projections do not.
bool IsHiddenMatrix(const UnitLayout& unit, const TensorLayout& tensor);

struct MatrixCount {
  int64_t matrices = 0, elements = 0;  // Of hidden matrices.
  int64_t rest = 0;                    // Elements of everything else.
};
MatrixCount CountMatrices(const ModelLayout& model);

// By unit, by piece: contiguous, ascending, without gaps; pieces may be empty. kMatrices: units
// with hidden matrices are cut at those boundaries of tensors where a block begins (what shares a
// block stays together), so that over all units the pieces' work is as even as can be, in
// multiplications of the matrices' orthogonalization. The other units are cut as by kBlocks.
std::vector<std::vector<BlockRange>> CutUnits(const ModelLayout& model, int pieces, CutRule rule);

}  // namespace longhaul
