#include "worker/graph/neighbor_sampler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Targets that a thread takes at once, and those whose memory it asks for ahead of use.
constexpr int64_t kChunkTargets = 128;
constexpr int kAhead = 16;
// Words of the level's table that a thread takes at once.
constexpr int64_t kChunkWords = 1 << 13;
// So that a sampler and a permutation with one seed differ.
constexpr uint64_t kSamplerStream = 0x6e65696768626f72;
// Degrees up to here: a table of bits tells which positions were drawn.
constexpr int64_t kTableDegree = 8192;
// Degrees up to here: 32 random bits for each draw. The bias is below 2^-16.
constexpr int64_t kNarrowDegree = 1 << 16;

// Runs body(chunk) for each of `chunks`, on the team if there is enough to share.
template <typename Body>
void ForChunks(ThreadTeam* team, int64_t chunks, const Body& body) {
  // The team cuts work at least so fine.
  constexpr int64_t kOfAPart = 32768;
  if (team == nullptr || team->threads() == 1 || chunks < 2) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
    return;
  }
  std::atomic<int64_t> next = 0;
  team->ForParts(team->threads() * kOfAPart, kOfAPart, [&](int64_t, int64_t) {
    for (int64_t chunk = next++; chunk < chunks; chunk = next++) body(chunk);
  });
}

// Without an instruction for it, a call of the library otherwise.
inline int64_t CountBits(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int64_t>(bits * 0x0101010101010101 >> 56);
}

// Which positions of a node's edges were drawn.
class DrawnSet {
 public:
  void Start(int64_t degree, int64_t draws) {
    table_ = degree <= kTableDegree;
    drawn_.clear();
    if (table_) return;
    const size_t size = std::bit_ceil(static_cast<uint64_t>(2 * draws));
    if (slots_.size() < size) slots_.resize(size);
    mask_ = size - 1;
    std::fill(slots_.begin(), slots_.begin() + static_cast<int64_t>(size), -1);
  }
  // False: it was in it.
  bool Insert(int64_t position) {
    if (table_) {
      uint64_t& word = bits_[position >> 6];
      const uint64_t bit = uint64_t{1} << (position & 63);
      if ((word & bit) != 0) return false;
      word |= bit;
      drawn_.push_back(static_cast<uint32_t>(position));
      return true;
    }
    auto at = (static_cast<uint64_t>(position) * 0x9E3779B97F4A7C15) >> 32;
    for (;; ++at) {
      int64_t& slot = slots_[at & mask_];
      if (slot == position) return false;
      if (slot >= 0) continue;
      slot = position;
      return true;
    }
  }
  void Clear() {
    for (const uint32_t position : drawn_) bits_[position >> 6] = 0;
  }

 private:
  bool table_ = true;
  std::array<uint64_t, kTableDegree / 64> bits_ = {};
  std::vector<uint32_t> drawn_;
  std::vector<int64_t> slots_;
  uint64_t mask_ = 0;
};

// Draws `draws` of `degree` positions, draws < degree, and calls take(position) for each. Floyd's
// algorithm (Bentley and Floyd, "A sample of brilliance", 1987): every subset is as likely.
template <typename Take>
void Draw(uint64_t key, uint64_t step, uint64_t counter, int64_t degree, int64_t draws,
          DrawnSet& drawn, const Take& take) {
  drawn.Start(degree, draws);
  const bool narrow = degree <= kNarrowDegree;
  const int of_a_call = narrow ? 4 : 2;
  std::array<uint32_t, 4> words = {};
  for (int64_t i = 0; i < draws; ++i) {
    const int word = static_cast<int>(i % of_a_call);
    if (word == 0)
      words = Philox(key, step, counter + (static_cast<uint64_t>(i / of_a_call) << 40));
    const auto bound = static_cast<uint64_t>(degree - draws + i + 1);
    const uint64_t wide =
        narrow ? 0 : static_cast<uint64_t>(words[2 * word + 1]) << 32 | words[2 * word];
    const uint64_t drawn_position =
        narrow ? words[word] * bound >> 32
               : static_cast<uint64_t>(static_cast<unsigned __int128>(wide) * bound >> 64);
    auto position = static_cast<int64_t>(drawn_position);
    if (!drawn.Insert(position)) {
      position = static_cast<int64_t>(bound) - 1;
      drawn.Insert(position);
    }
    take(position);
  }
  drawn.Clear();
}

}  // namespace

GraphBlock SampledBatch::Block(int layer) const {
  LH_CHECK(0 <= layer && layer < layers(), "a layer of the batch");
  const int level = layers() - 1 - layer;
  const int64_t targets = level_ends[level];
  return {.targets = targets,
          .sources = level_ends[level + 1],
          .indptr = absl::MakeConstSpan(indptr).subspan(0, targets + 1),
          .source_rows = absl::MakeConstSpan(source_rows).subspan(0, indptr[targets])};
}

NeighborSampler::NeighborSampler(const GraphEdges& edges, const Options& options)
    : edges_(edges),
      edge_count_(edges.edges()),
      options_(options),
      words_((edges.nodes + 63) / 64) {}

absl::StatusOr<NeighborSampler> NeighborSampler::Create(const GraphEdges& edges,
                                                        const Options& options) {
  LH_CHECK(edges.nodes < (int64_t{1} << 32), "nodes are numbers of 32 bits");
  const auto hops = static_cast<int>(options.fanout.size());
  if (hops < 1 || hops > kHopsMax)
    return absl::InvalidArgumentError(absl::StrCat("fan-outs for 1 to ", kHopsMax, " hops"));
  for (const int64_t fanout : options.fanout) {
    if (fanout != -1 && (fanout < 1 || fanout > kFanoutMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the fan-out ", fanout, " is neither -1 nor from 1 to ", kFanoutMax));
    }
  }
  NeighborSampler sampler(edges, options);
  if (options.members_only) {
    sampler.members_.assign((edges.nodes + 63) / 64, 0);
    for (const int64_t node : options.members) {
      if (node < 0 || node >= edges.nodes)
        return absl::InvalidArgumentError(
            absl::StrCat("a member is not one of ", edges.nodes, " nodes"));
      sampler.members_[node >> 6] |= uint64_t{1} << (node & 63);
    }
    sampler.options_.members = {};
  }
  return sampler;
}

absl::StatusOr<SampledBatch> NeighborSampler::Sample(int64_t step, absl::Span<const int64_t> seeds,
                                                     absl::Span<const NodePair> excluded,
                                                     ThreadTeam* team) {
  SampledBatch batch;
  LH_RETURN_IF_ERROR(AddSeeds(seeds, batch));
  SetExcluded(excluded);
  batch.indptr.push_back(0);
  for (int hop = 0; hop < static_cast<int>(options_.fanout.size()); ++hop)
    LH_RETURN_IF_ERROR(AddLevel(step, hop, team, batch));
  return batch;
}

absl::Status NeighborSampler::AddSeeds(absl::Span<const int64_t> seeds, SampledBatch& batch) const {
  if (seeds.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    return absl::ResourceExhaustedError("too many seeds in a batch");
  struct Place {
    int64_t node;
    int32_t place;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  places.reserve(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] < 0 || seeds[i] >= edges_.nodes)
      return absl::InvalidArgumentError(
          absl::StrCat("seed ", i, " is not one of ", edges_.nodes, " nodes"));
    places.push_back({seeds[i], static_cast<int32_t>(i)});
  }
  std::sort(places.begin(), places.end());
  // The first place of each seed.
  batch.seed_rows.resize(seeds.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const bool again = i > 0 && places[i].node == places[i - 1].node;
    if (again) places[i].place = places[i - 1].place;
    batch.seed_rows[places[i].place] = -1;
  }
  std::vector<int32_t> firsts(seeds.size(), -1);
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (batch.seed_rows[i] < 0) {
      firsts[i] = static_cast<int32_t>(batch.nodes.size());
      batch.nodes.push_back(seeds[i]);
    }
  }
  // By node, each seed finds its first place.
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (firsts[i] >= 0) {
      batch.seed_rows[i] = firsts[i];
      continue;
    }
    const auto at = std::lower_bound(places.begin(), places.end(), Place{seeds[i], 0});
    batch.seed_rows[i] = firsts[at->place];
  }
  batch.level_ends.push_back(static_cast<int64_t>(batch.nodes.size()));
  return absl::OkStatus();
}

void NeighborSampler::SetExcluded(absl::Span<const NodePair> excluded) {
  excluded_.clear();
  for (const NodePair& pair : excluded) {
    const auto source = static_cast<uint32_t>(pair.source);
    const auto target = static_cast<uint32_t>(pair.target);
    excluded_.push_back({target, source});
    excluded_.push_back({source, target});
  }
  std::sort(excluded_.begin(), excluded_.end());
  excluded_.erase(std::unique(excluded_.begin(), excluded_.end()), excluded_.end());
}

// The positions that count, if not all do. False: the arrays are not a graph.
template <typename Source>
bool NeighborSampler::TakeFiltered(const Source* sources, uint32_t target, int64_t begin,
                                   int64_t degree, std::vector<uint32_t>& candidates) const {
  candidates.clear();
  if (options_.members_only && !IsMember(target)) return true;
  const auto first = std::lower_bound(excluded_.begin(), excluded_.end(), Excluded{target, 0});
  for (int64_t position = 0; position < degree; ++position) {
    const auto source = static_cast<int64_t>(sources[begin + position]);
    if (source < 0 || source >= edges_.nodes) return false;
    if (options_.members_only && !IsMember(source)) continue;
    // A batch excludes few edges of a node.
    bool out = false;
    for (auto at = first; at != excluded_.end() && at->target == target; ++at)
      out = out || at->source == static_cast<uint32_t>(source);
    if (!out) candidates.push_back(static_cast<uint32_t>(position));
  }
  return true;
}

// Draws for each target, and marks the sources in the level's table. `shared`: other threads do the
// same. kBroken: the arrays are not a graph.
template <typename Source>
NeighborSampler::ChunkEnd NeighborSampler::SampleChunk(const Source* sources, int64_t step, int hop,
                                                       absl::Span<const int64_t> targets,
                                                       bool shared, Chunk& chunk) {
  const int64_t fanout = options_.fanout[hop];
  const uint64_t key = options_.seed ^ kSamplerStream;
  chunk.counts.clear();
  chunk.sources.clear();
  DrawnSet drawn;
  std::vector<uint32_t> candidates;
  // Where the edges of a few targets are in `sources`. They are read after all of them were asked
  // for, since most are far from each other.
  std::vector<int64_t> places;
  for (size_t first = 0; first < targets.size(); first += kAhead) {
    const absl::Span<const int64_t> group = targets.subspan(first, kAhead);
    if (first == 0) {
      for (const int64_t target : group) __builtin_prefetch(&edges_.indptr[target]);
    }
    for (const int64_t target : targets.subspan(std::min(first + kAhead, targets.size()), kAhead))
      __builtin_prefetch(&edges_.indptr[target]);
    places.clear();
    for (const int64_t target : group) {
      const int64_t begin = edges_.indptr[target], end = edges_.indptr[target + 1];
      if (begin < 0 || end < begin || end > edge_count_) return ChunkEnd::kBroken;
      int64_t degree = end - begin;
      const auto range = std::lower_bound(excluded_.begin(), excluded_.end(),
                                          Excluded{static_cast<uint32_t>(target), 0});
      const bool filtered =
          options_.members_only ||
          (range != excluded_.end() && range->target == static_cast<uint32_t>(target));
      if (filtered) {
        if (!TakeFiltered(sources, static_cast<uint32_t>(target), begin, degree, candidates))
          return ChunkEnd::kBroken;
        degree = static_cast<int64_t>(candidates.size());
      }
      const auto take = [&](int64_t position) {
        const int64_t place = begin + (filtered ? candidates[position] : position);
        __builtin_prefetch(&sources[place]);
        places.push_back(place);
      };
      const bool all = fanout < 0 || degree <= fanout;
      const auto before = static_cast<int64_t>(chunk.sources.size() + places.size());
      if (before + (all ? degree : fanout) > options_.edges_max) return ChunkEnd::kTooMany;
      if (all) {
        for (int64_t position = 0; position < degree; ++position) take(position);
      } else {
        Draw(key, static_cast<uint64_t>(step),
             static_cast<uint64_t>(target) | static_cast<uint64_t>(hop) << 32, degree, fanout,
             drawn, take);
      }
      chunk.counts.push_back(static_cast<uint32_t>(all ? degree : fanout));
    }
    const size_t before = chunk.sources.size();
    for (const int64_t place : places) {
      const auto source = static_cast<int64_t>(sources[place]);
      if (source < 0 || source >= edges_.nodes) return ChunkEnd::kBroken;
      __builtin_prefetch(&words_[source >> 6], 1);
      chunk.sources.push_back(static_cast<uint32_t>(source));
    }
    for (size_t i = before; i < chunk.sources.size(); ++i) {
      uint64_t& word = words_[chunk.sources[i] >> 6].bits;
      const uint64_t bit = uint64_t{1} << (chunk.sources[i] & 63);
      if (!shared) {
        word |= bit;
        continue;
      }
      std::atomic_ref<uint64_t> both(word);
      if ((both.load(std::memory_order_relaxed) & bit) == 0)
        both.fetch_or(bit, std::memory_order_relaxed);
    }
  }
  return ChunkEnd::kWhole;
}

absl::Status NeighborSampler::AddLevel(int64_t step, int hop, ThreadTeam* team,
                                       SampledBatch& batch) {
  const int64_t first = hop == 0 ? 0 : batch.level_ends[hop - 1], end = batch.level_ends[hop];
  const absl::Span<const int64_t> targets =
      absl::MakeConstSpan(batch.nodes).subspan(first, end - first);
  const auto chunks = (static_cast<int64_t>(targets.size()) + kChunkTargets - 1) / kChunkTargets;
  if (static_cast<int64_t>(chunks_.size()) < chunks) chunks_.resize(chunks);
  const bool shared = team != nullptr && team->threads() > 1;
  std::atomic<bool> broken = false, too_many = false;
  // An error leaves the marks of this level behind.
  const auto clear_all = [this] { std::fill(words_.begin(), words_.end(), Word()); };
  ForChunks(team, chunks, [&](int64_t chunk) {
    const auto of_chunk = targets.subspan(chunk * kChunkTargets, kChunkTargets);
    const ChunkEnd chunk_end =
        edges_.sources != nullptr
            ? SampleChunk(edges_.sources, step, hop, of_chunk, shared, chunks_[chunk])
            : SampleChunk(edges_.wide_sources, step, hop, of_chunk, shared, chunks_[chunk]);
    if (chunk_end == ChunkEnd::kBroken) broken = true;
    if (chunk_end == ChunkEnd::kTooMany) too_many = true;
  });
  if (broken) {
    clear_all();
    return absl::DataLossError("the graph's arrays have changed: they are not a graph now");
  }
  // Where the edges of each chunk begin.
  std::vector<int64_t> edge_begins = {batch.indptr.back()};
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    edge_begins.push_back(edge_begins.back() + static_cast<int64_t>(chunks_[chunk].sources.size()));
  if (too_many || edge_begins.back() > options_.edges_max) {
    clear_all();
    return absl::ResourceExhaustedError(
        absl::StrCat("a batch has more than ", options_.edges_max, " sampled edges"));
  }
  // The marked nodes, ascending, are the level: count them by parts of the table, then number them.
  const auto words = static_cast<int64_t>(words_.size());
  const int64_t parts = (words + kChunkWords - 1) / kChunkWords;
  std::vector<int64_t> part_begins(parts + 1, 0);
  const auto words_of = [&](int64_t part) {
    return absl::MakeSpan(words_).subspan(part * kChunkWords, kChunkWords);
  };
  ForChunks(team, parts, [&](int64_t part) {
    int64_t count = 0;
    for (const Word& word : words_of(part)) count += CountBits(word.bits);
    part_begins[part + 1] = count;
  });
  part_begins[0] = end;
  for (int64_t part = 0; part < parts; ++part) part_begins[part + 1] += part_begins[part];
  if (part_begins[parts] > std::numeric_limits<int32_t>::max()) {
    clear_all();
    return absl::ResourceExhaustedError("a batch has more than 2^31 rows");
  }
  batch.nodes.resize(part_begins[parts]);
  batch.level_ends.push_back(part_begins[parts]);
  batch.source_rows.resize(edge_begins.back());
  batch.indptr.resize(end + 1);
  ForChunks(team, parts, [&](int64_t part) {
    int64_t row = part_begins[part];
    int64_t node = part * kChunkWords * 64;
    for (Word& word : words_of(part)) {
      word.rank = row;
      for (uint64_t bits = word.bits; bits != 0; bits &= bits - 1)
        batch.nodes[row++] = node + std::countr_zero(bits);
      node += 64;
    }
  });
  ForChunks(team, chunks, [&](int64_t chunk) {
    const Chunk& of_chunk = chunks_[chunk];
    int64_t edge = edge_begins[chunk];
    int32_t* out = batch.source_rows.data() + edge;
    for (const uint32_t source : of_chunk.sources) {
      const Word& word = words_[source >> 6];
      const uint64_t below = (uint64_t{1} << (source & 63)) - 1;
      *out++ = static_cast<int32_t>(word.rank + CountBits(word.bits & below));
    }
    int64_t* row = batch.indptr.data() + first + chunk * kChunkTargets;
    for (const uint32_t count : of_chunk.counts) *++row = edge += count;
  });
  for (int64_t row = end; row < batch.level_ends.back(); ++row)
    words_[batch.nodes[row] >> 6].bits = 0;
  return absl::OkStatus();
}

}  // namespace longhaul
