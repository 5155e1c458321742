#include "common/layout/unit_pieces.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "common/base/checked_math.h"

namespace longhaul {
namespace {

// Tensors that must stay together.
struct Atom {
  // In elements of the unit.
  int64_t end = 0;
  double work = 0;
};

// The work of one update, in multiplications of one iteration: X X^T, its square, and their product
// with X (Muon; worker/optim/muon_options.h). Exact below 2^53; above, it is rounded in the same
// way on every machine.
double WorkOf(const TensorLayout& tensor) {
  const auto elements = static_cast<double>(tensor.elements);
  if (!tensor.matrix) return elements;
  const auto side = static_cast<double>(std::min(tensor.shape[0], tensor.shape[1]));
  return elements + 2 * elements * side + side * side * side;
}

std::vector<Atom> AtomsOf(const UnitLayout& unit) {
  std::vector<Atom> atoms;
  bool begins = true;
  for (const TensorLayout& tensor : unit.tensors) {
    if (begins) atoms.emplace_back();
    atoms.back().end = tensor.offset + tensor.elements;
    atoms.back().work += WorkOf(tensor);
    begins = atoms.back().end % kBlockElements == 0;
  }
  return atoms;
}

// Decides how many atoms each piece ends with, so that the sum of the squares of the loads is
// least. Adds to the loads.
std::vector<size_t> Share(const std::vector<Atom>& atoms, std::vector<double>& loads) {
  const size_t pieces = loads.size(), count = atoms.size();
  // cost[p][a]: the least sum with the first `a` atoms in the first `p` pieces. taken[p][a]: how
  // many of them are then in the first p - 1 pieces.
  std::vector<std::vector<double>> cost(
      pieces + 1, std::vector<double>(count + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<size_t>> taken(pieces + 1, std::vector<size_t>(count + 1));
  cost[0][0] = 0;
  for (size_t p = 1; p <= pieces; ++p) {
    for (size_t a = 0; a <= count; ++a) {
      double load = loads[p - 1];
      for (size_t before = a;; --before) {
        const double sum = cost[p - 1][before] + load * load;
        if (sum < cost[p][a]) cost[p][a] = sum, taken[p][a] = before;
        if (before == 0) break;
        load += atoms[before - 1].work;
      }
    }
  }
  std::vector<size_t> ends(pieces);
  size_t end = count;
  for (size_t p = pieces; p > 0; --p) {
    ends[p - 1] = end;
    const size_t before = taken[p][end];
    for (; end > before; --end) loads[p - 1] += atoms[end - 1].work;
  }
  return ends;
}

}  // namespace

int64_t VectorElements(const UnitLayout& unit) {
  int64_t elements = 0;
  for (const TensorLayout& tensor : unit.tensors)
    elements += tensor.shape.size() < 2 ? tensor.elements : 0;
  return elements;
}

MatrixCount CountMatrices(const ModelLayout& model) {
  MatrixCount count;
  for (const UnitLayout& unit : model.units) {
    for (const TensorLayout& tensor : unit.tensors) {
      count.matrices += tensor.matrix ? 1 : 0;
      (tensor.matrix ? count.elements : count.rest) += tensor.elements;
    }
  }
  return count;
}

std::vector<std::vector<BlockRange>> CutUnits(const ModelLayout& model, int pieces, CutRule rule) {
  LH_CHECK(pieces > 0, "a pool without ranks");
  std::vector<std::vector<BlockRange>> units;
  std::vector<double> loads(pieces);
  for (const UnitLayout& unit : model.units) {
    std::vector<BlockRange>& blocks = units.emplace_back();
    const bool whole =
        rule == CutRule::kMatrices && std::any_of(unit.tensors.begin(), unit.tensors.end(),
                                                  [](const TensorLayout& t) { return t.matrix; });
    if (!whole) {
      for (int piece = 0; piece < pieces; ++piece)
        blocks.push_back(OwnedBlocks(unit.elements, piece, pieces));
      continue;
    }
    const std::vector<Atom> atoms = AtomsOf(unit);
    int64_t first = 0;
    for (const size_t end : Share(atoms, loads)) {
      const int64_t last = end == 0 ? 0 : CeilDiv(atoms[end - 1].end, kBlockElements);
      blocks.push_back({first, last - first});
      first = last;
    }
  }
  return units;
}

}  // namespace longhaul
