#include "common/plan/partition_costs.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/codec/codec.h"
#include "common/layout/backward_gathers.h"
#include "common/layout/fragment_layout.h"
#include "common/layout/unit_pieces.h"
#include "common/partition/hops.h"

namespace longhaul::plan {
namespace {

// As UnitCode: each piece begins at a multiple of this.
constexpr int64_t kPieceAlignment = 16;

struct Bytes {
  int64_t payload = 0, scales = 0;
};

// The coded sizes of the pieces of a unit: vectors in float32, matrices in `bits`. Neighbouring
// matrices are one run, which is coded as one.
std::vector<Bytes> CodedPieces(const UnitLayout& unit, const std::vector<BlockRange>& pieces,
                               int bits) {
  const std::unique_ptr<Codec> codec =
      bits < 16 ? MakeCodec({.kind = IntegerCodec(bits)}).value() : nullptr;
  std::vector<Bytes> coded;
  for (const BlockRange& blocks : pieces) {
    const int64_t first = std::min(blocks.first * kBlockElements, unit.elements);
    const int64_t end = std::min(blocks.end() * kBlockElements, unit.elements);
    int64_t payload = 0, size = 0, run = 0;
    const auto end_run = [&] {
      const int64_t code = CeilDiv(run * bits, 8);
      payload += code;
      size += codec == nullptr || run == 0 ? code : codec->FragmentBytes(run);
      run = 0;
    };
    for (const TensorLayout& tensor : unit.tensors) {
      const int64_t inside =
          std::min(end, tensor.offset + tensor.elements) - std::max(first, tensor.offset);
      if (inside <= 0) continue;
      if (tensor.shape.size() < 2) {
        end_run();
        payload += 4 * inside;
        size += 4 * inside;
      } else {
        run += inside;
      }
    }
    end_run();
    coded.push_back({payload, CeilDiv(size, kPieceAlignment) * kPieceAlignment - payload});
  }
  return coded;
}

std::vector<Bytes> FloatPieces(const UnitLayout& unit, const std::vector<BlockRange>& pieces) {
  std::vector<Bytes> bytes;
  for (const BlockRange& blocks : pieces)
    bytes.push_back({4 * ElementsOf(blocks, unit.elements), 0});
  return bytes;
}

Bytes SumOf(const std::vector<Bytes>& pieces, const PieceRange& range) {
  Bytes sum;
  for (int piece = range.first; piece < range.end(); ++piece) {
    sum.payload += pieces[piece].payload;
    sum.scales += pieces[piece].scales;
  }
  return sum;
}

// Sums over all ranks, by level.
struct Counted {
  std::array<int64_t, 4> payload = {}, scales = {};
};

class Counter {
 public:
  explicit Counter(const PartitionSetting& setting)
      : setting_(setting), topology_(setting.topology) {
    for (int rank = 0; rank < topology_.ranks(); ++rank)
      groups_.push_back(HopGroups(setting.map, topology_, rank));
  }

  // All ranks gather from `wide` to `narrow`.
  void Gather(const std::vector<Bytes>& pieces, Level wide, Level narrow, int64_t times,
              Counted& counted) const {
    Visit(wide, narrow, [&](const HopGroup& hop, int rank, int other) {
      Add(SumOf(pieces, topology_.Pieces(hop.wide, other)), rank, other, times, counted);
    });
  }
  // All ranks reduce from `narrow` to `wide`: each receives its own part from every other.
  void Reduce(const std::vector<Bytes>& pieces, Level narrow, Level wide, int64_t times,
              Counted& counted) const {
    Visit(wide, narrow, [&](const HopGroup& hop, int rank, int other) {
      Add(SumOf(pieces, topology_.Pieces(hop.wide, rank)), rank, other, times, counted);
    });
  }
  // The hops of a rank that gather from `wide` to `narrow`, in their order.
  std::vector<const HopGroup*> Path(int rank, Level wide, Level narrow) const {
    const auto find = [&](HopLevels levels) {
      return std::find_if(groups_[rank].begin(), groups_[rank].end(), [&](const HopGroup& group) {
        return group.narrow == levels.narrow && group.wide == levels.wide;
      });
    };
    std::vector<const HopGroup*> path;
    for (const HopLevels levels :
         HopPath(wide, narrow, [&](HopLevels l) { return find(l) != groups_[rank].end(); })) {
      path.push_back(&*find(levels));
    }
    return path;
  }

  UseBytes Mean(const Counted& counted) const {
    const auto of = [&](const std::array<int64_t, 4>& bytes) {
      const auto at = [&](Level level) {
        return static_cast<double>(bytes[static_cast<size_t>(level)]) / topology_.ranks();
      };
      return LevelBytes{at(Level::kPair), at(Level::kNode), at(Level::kPool)};
    };
    return {of(counted.payload), of(counted.scales)};
  }

 private:
  // visit(hop, rank, other): of each hop on the path, each rank with each other rank of the hop.
  template <typename Function>
  void Visit(Level wide, Level narrow, Function&& visit) const {
    for (int rank = 0; rank < topology_.ranks(); ++rank) {
      for (const HopGroup* hop : Path(rank, wide, narrow)) {
        for (const int other : hop->ranks) {
          if (other != rank) visit(*hop, rank, other);
        }
      }
    }
  }
  void Add(const Bytes& bytes, int rank, int other, int64_t times, Counted& counted) const {
    const auto level = static_cast<size_t>(topology_.Nearest(rank, other));
    counted.payload[level] += times * bytes.payload;
    counted.scales[level] += times * bytes.scales;
  }

  const PartitionSetting& setting_;
  const Topology& topology_;
  // By rank.
  std::vector<std::vector<HopGroup>> groups_;
};

bool SameShape(const UnitLayout& a, const UnitLayout& b) {
  if (a.elements != b.elements || a.tensors.size() != b.tensors.size()) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].shape != b.tensors[i].shape) return false;
  }
  return true;
}

bool HasMatrix(const UnitLayout& unit) {
  return std::any_of(unit.tensors.begin(), unit.tensors.end(),
                     [](const TensorLayout& tensor) { return tensor.shape.size() > 1; });
}

// A shape of units: how many have it, and how often a micro-batch gathers units of it.
struct UnitShape {
  const UnitLayout* unit = nullptr;
  int64_t count = 0, forward = 0, backward = 0;
};

// A head without a matrix is tied: its forward gathers the embedding once more.
std::vector<UnitShape> ShapesOf(const ModelLayout& layout) {
  std::vector<UnitShape> shapes;
  const bool tied = !layout.units.empty() && layout.units.back().kind == UnitKind::kHead &&
                    !HasMatrix(layout.units.back());
  for (int i = 0; i < static_cast<int>(layout.units.size()); ++i) {
    const UnitLayout& unit = layout.units[i];
    auto same = std::find_if(shapes.begin(), shapes.end(),
                             [&](const UnitShape& shape) { return SameShape(*shape.unit, unit); });
    if (same == shapes.end()) same = shapes.insert(same, UnitShape{.unit = &unit});
    ++same->count;
    same->forward += tied && unit.kind == UnitKind::kEmbedding ? 2 : 1;
    if (GathersForBackward(layout, i)) ++same->backward;
  }
  return shapes;
}

std::vector<BlockRange> PiecesOf(const UnitLayout& unit, int ranks) {
  std::vector<BlockRange> pieces;
  for (int piece = 0; piece < ranks; ++piece)
    pieces.push_back(OwnedBlocks(unit.elements, piece, ranks));
  return pieces;
}

}  // namespace

LevelBytes UseBytes::total() const {
  return {payload.pair + scales.pair, payload.node + scales.node, payload.pool + scales.pool};
}

LevelBytes PartitionTraffic::total() const {
  LevelBytes sum;
  for (const UseBytes& use : {forward, backward, gradient, refresh}) {
    const LevelBytes bytes = use.total();
    sum = {sum.pair + bytes.pair, sum.node + bytes.node, sum.pool + bytes.pool};
  }
  return sum;
}

PartitionTraffic TrafficOf(const PartitionSetting& setting) {
  const PartitionMap map = Normalized(setting.map, setting.topology);
  const int computed = setting.bf16 ? 16 : 32;
  const Counter counter(setting);
  Counted forward, backward, gradient, refresh;
  for (const UnitShape& shape : ShapesOf(setting.layout)) {
    const UnitLayout& unit = *shape.unit;
    const std::vector<BlockRange> pieces = PiecesOf(unit, setting.topology.ranks());
    const std::vector<Bytes> floats = FloatPieces(unit, pieces);
    // What is computed and sent in float32 is not coded.
    const auto coded = [&](int bits) {
      if (bits == 0) bits = computed;
      return bits == 32 ? floats : CodedPieces(unit, pieces, bits);
    };
    const int64_t count = shape.count, passes = count * setting.accumulation;
    const Level weights = map.weights.level, gradients = map.gradients.level;
    if (weights != Level::kRank) {
      const Spread& again = map.secondary.has_value() ? *map.secondary : map.weights;
      counter.Gather(coded(map.weights.bits), weights, Level::kRank,
                     shape.forward * setting.accumulation, forward);
      counter.Gather(coded(again.bits), again.level, Level::kRank,
                     shape.backward * setting.accumulation, backward);
    }
    const std::vector<Bytes> reduced = coded(map.gradients.bits);
    counter.Reduce(reduced, Level::kRank, gradients, passes, gradient);
    counter.Reduce(reduced, gradients, Level::kPool, count, gradient);
    counter.Gather(coded(0), Level::kPool, map.optimizer, count, gradient);
    counter.Gather(coded(0), map.optimizer, weights, count, refresh);
  }
  return {.forward = counter.Mean(forward),
          .backward = counter.Mean(backward),
          .gradient = counter.Mean(gradient),
          .refresh = counter.Mean(refresh)};
}

PartitionState StateOf(const PartitionSetting& setting) {
  const PartitionMap map = Normalized(setting.map, setting.topology);
  const int ranks = setting.topology.ranks(), computed = setting.bf16 ? 16 : 32;
  const Counter counter(setting);
  PartitionState sum;
  for (const UnitShape& shape : ShapesOf(setting.layout)) {
    const UnitLayout& unit = *shape.unit;
    const int64_t count = shape.count;
    const std::vector<BlockRange> pieces = PiecesOf(unit, ranks);
    const std::vector<Bytes> floats = FloatPieces(unit, pieces);
    const auto held = [&](Level level, int rank) {
      return static_cast<double>(SumOf(floats, setting.topology.Pieces(level, rank)).payload) / 4;
    };
    const std::vector<Bytes> secondary =
        !map.secondary.has_value()
            ? std::vector<Bytes>(pieces.size())
            : CodedPieces(unit, pieces, map.secondary->bits == 0 ? computed : map.secondary->bits);
    for (int rank = 0; rank < ranks; ++rank) {
      const double weights = held(map.weights.level, rank), masters = held(map.optimizer, rank);
      // In float32 the masters are a part of the weights.
      sum.weights += count * (setting.bf16 ? 2 * weights + 4.0 * VectorElements(unit)
                                           : 4 * weights - 4 * masters);
      sum.optimizer += count * 12 * masters;
      sum.gradients += count * 4 * held(map.gradients.level, rank);
      if (map.secondary.has_value()) {
        const Bytes bytes = SumOf(secondary, setting.topology.Pieces(map.secondary->level, rank));
        sum.secondary += static_cast<double>(shape.backward * (bytes.payload + bytes.scales));
      }
    }
    const int bits = map.gradients.bits == 0 ? computed : map.gradients.bits;
    if (!map.error_feedback || bits >= 16) continue;
    // Each hop of a reduction has its own error feedback, in bf16, of what the rank holds before
    // it.
    const auto add = [&](Level narrow, Level wide) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const HopGroup* hop : counter.Path(rank, wide, narrow))
          sum.error_feedback += count * 2 * held(hop->narrow, rank);
      }
    };
    add(Level::kRank, map.gradients.level);
    add(map.gradients.level, Level::kPool);
  }
  for (double* bytes :
       {&sum.weights, &sum.secondary, &sum.gradients, &sum.optimizer, &sum.error_feedback}) {
    *bytes /= ranks;
  }
  return sum;
}

}  // namespace longhaul::plan
