#include "common/codec/topk2_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/numeric/int128.h"
#include "absl/strings/str_format.h"
#include "common/base/checked_math.h"
#include "common/codec/topk2_levels.h"

namespace longhaul {
namespace {

using topk2::ChunkShape;
using topk2::Entry;
using topk2::kChunkElements;
using topk2::kLevelBytes;

// The parts of a coded chunk. T is uint8_t or const uint8_t.
template <typename T>
struct Chunk {
  T *levels, *groups, *entries;
  Chunk(T* bytes, const ChunkShape& shape)
      : levels(bytes), groups(bytes + kLevelBytes), entries(groups + shape.group_bytes()) {}
};

// Calls use(j, position) for the kept elements whose group the chunk names. There are at most
// shape.kept().
template <typename Use>
void ForEachPosition(const Chunk<const uint8_t>& chunk, const ChunkShape& shape, Use use) {
  int64_t kept = 0;
  for (int64_t byte = 0; byte < shape.group_bytes(); ++byte) {
    for (uint32_t bits = chunk.groups[byte]; bits != 0 && kept < shape.kept(); bits &= bits - 1) {
      const int64_t group = byte * 8 + std::countr_zero(bits) - kept;
      use(kept, group * topk2::kGroupElements + (chunk.entries[kept] & Entry::kPosition));
      ++kept;
    }
  }
}

topk2::Levels LoadLevels(const uint8_t* bytes) {
  uint16_t words[2];
  std::memcpy(words, bytes, sizeof(words));
  return {words[0], words[1]};
}

}  // namespace

Topk2Codec::Topk2Codec(const CodecOptions& options)
    : Codec(options,
            {.blocks_per_group = topk2::kChunkBlocks, .code_bytes_per_group = topk2::kChunkBytes},
            {}),
      kernels_(options.kernels == KernelKind::kScalar ? kernels::Topk2Scalar()
                                                      : kernels::Topk2Simd()) {}

int64_t Topk2Codec::PayloadBytes(int64_t elements) const {
  const int64_t rest = elements % kChunkElements;
  return elements / kChunkElements * topk2::kChunkBytes +
         (rest == 0 ? 0 : ChunkShape{rest}.bytes());
}

int64_t Topk2Codec::FragmentBytesMax(int64_t elements) const {
  return CeilDiv(elements, kBlockElements) * ChunkShape{kBlockElements}.bytes();
}

void Topk2Codec::EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                           SegmentScratch& scratch) const {
  const int64_t total = in.values.size();
  for (int64_t at = 0; at < total; at += kChunkElements) {
    const ChunkShape shape = {std::min(kChunkElements, total - at)};
    const int64_t blocks = CeilDiv(shape.elements, kBlockElements);
    alignas(64) std::array<float, kChunkElements> buffer;
    const bool whole = shape.elements % kBlockElements == 0;
    float* const u = whole && !lost.empty() ? lost.data() + at : buffer.data();
    const auto from = [&](absl::Span<const float> span) {
      return span.empty() ? nullptr : span.data() + at;
    };
    // Buffers in which a short last block is padded with zeros.
    alignas(64) float tails[3][kBlockElements] = {};
    const int64_t whole_blocks = shape.elements / kBlockElements;
    const float decay = options().feedback_decay;
    kernels::PartMaxima maxima;
    uint32_t max = kernels_.load(from(in.values), from(in.minus), from(in.error), decay,
                                 whole_blocks, u, maxima);
    if (!whole) {
      const auto tail_of = [&](absl::Span<const float> span, float* copy) -> const float* {
        if (span.empty()) return nullptr;
        std::copy(span.begin() + at + whole_blocks * kBlockElements, span.end(), copy);
        return copy;
      };
      max = std::max(max, kernels_.load(tail_of(in.values, tails[0]), tail_of(in.minus, tails[1]),
                                        tail_of(in.error, tails[2]), decay, 1,
                                        u + whole_blocks * kBlockElements, maxima));
    }
    for (int64_t b = 0; b < blocks; ++b) scratch.blocks[first_block + b] = {};
    EncodeChunk({shape, first_block, max, &maxima, from(in.values) + kChunkElements}, u,
                scratch.out.data() + first_block / topk2::kChunkBlocks * topk2::kChunkBytes,
                scratch);
    if (!whole && !lost.empty()) std::copy_n(u, shape.elements, lost.data() + at);
    first_block += blocks;
  }
}

void Topk2Codec::EncodeChunk(const LoadedChunk& loaded, float* u, uint8_t* out,
                             SegmentScratch& scratch) const {
  const ChunkShape& shape = loaded.shape;
  const int64_t first_block = loaded.first_block;
  const int64_t blocks = CeilDiv(shape.elements, kBlockElements);
  if (loaded.magnitude_max > kernels::kFiniteMax) {
    int64_t bad = 0;
    while ((std::bit_cast<uint32_t>(u[bad]) & kernels::kMagnitudeMask) <= kernels::kFiniteMax)
      ++bad;
    scratch.blocks[first_block + bad / kBlockElements] = {
        loaded.magnitude_max, static_cast<uint32_t>(bad % kBlockElements)};
    return;
  }
  const auto measure = [&](double kernels::BlockEnergy::*energy) {
    const int64_t group = first_block / kernels::kSampleBlocks;
    for (int64_t g = group; g * kernels::kSampleBlocks < first_block + blocks; ++g) {
      const int64_t b = kernels::MeasuredBlock(g) - first_block;
      if (b < blocks) scratch.energies[g].*energy = kernels_.energy(u + b * kBlockElements);
    }
  };
  measure(&kernels::BlockEnergy::signal);

  std::array<uint16_t, topk2::kKeptMax> positions = {};
  const int64_t kept = shape.kept();
  kernels_.select(u, blocks, kept, *loaded.maxima, loaded.next, positions.data());
  std::array<float, topk2::kKeptMax> values = {};
  for (int64_t j = 0; j < kept; ++j) values[j] = u[positions[j]];
  kernels::CodedChunk coded;
  kernels_.code(values.data(), positions.data(), static_cast<int>(kept), loaded.magnitude_max,
                coded);
  for (int64_t j = 0; j < kept; ++j) u[positions[j]] = coded.lost[j];

  const Chunk<uint8_t> chunk(out, shape);
  const uint16_t words[2] = {coded.levels.low, coded.levels.high};
  std::memcpy(chunk.levels, words, sizeof(words));
  // Kept in registers, since writes of bits into bytes would wait for each other.
  absl::uint128 groups = 0;
  for (int64_t j = 0; j < kept; ++j)
    groups |= absl::uint128(1) << static_cast<int>(positions[j] / topk2::kGroupElements + j);
  const uint64_t halves[2] = {absl::Uint128Low64(groups), absl::Uint128High64(groups)};
  std::memcpy(chunk.groups, halves, shape.group_bytes());
  std::memcpy(chunk.entries, coded.entries, kept);
  measure(&kernels::BlockEnergy::error);
}

EncodeResult Topk2Codec::FinishSegment(SegmentScratch& scratch) const {
  return SumEnergies(scratch, 0);
}

absl::Status Topk2Codec::DoValidate(const SegmentView& segment) const {
  for (int64_t at = 0; at < segment.elements; at += kChunkElements) {
    const ChunkShape shape = {std::min(kChunkElements, segment.elements - at)};
    const uint8_t* bytes = segment.payload.data() + at / kChunkElements * topk2::kChunkBytes;
    const Chunk<const uint8_t> chunk(bytes, shape);
    const topk2::Levels levels = LoadLevels(chunk.levels);
    const auto refuse = [&](const char* why) {
      return absl::InvalidArgumentError(absl::StrFormat("topk2: chunk at element %d: %s", at, why));
    };
    if (std::max(levels.low, levels.high) > scale_word::kMax)
      return refuse("a level is not finite");
    int64_t ones = 0;
    for (int64_t i = 0; i < shape.group_bytes(); ++i) ones += std::popcount(chunk.groups[i]);
    if (ones != shape.kept()) return refuse("not as many positions as kept elements");
    int64_t last = -1;
    bool ascending = true;
    ForEachPosition(chunk, shape, [&](int64_t, int64_t position) {
      ascending = ascending && position > last && position < shape.elements;
      last = position;
    });
    if (!ascending) return refuse("positions are not ascending within the chunk");
  }
  return absl::OkStatus();
}

template <typename Use>
void Topk2Codec::ForEachKept(const SegmentView& segment, int64_t first_block, int64_t elements,
                             Use use) const {
  const int64_t begin = first_block * kBlockElements, end = begin + elements;
  for (int64_t at = begin / kChunkElements * kChunkElements; at < end; at += kChunkElements) {
    const ChunkShape shape = {std::min(kChunkElements, segment.elements - at)};
    const uint8_t* bytes = segment.payload.data() + at / kChunkElements * topk2::kChunkBytes;
    const Chunk<const uint8_t> chunk(bytes, shape);
    const topk2::Levels levels = LoadLevels(chunk.levels);
    ForEachPosition(chunk, shape, [&](int64_t j, int64_t position) {
      const int64_t element = at + position;
      if (element >= begin && element < end) use(element - begin, levels.ValueOf(chunk.entries[j]));
    });
  }
}

void Topk2Codec::DoDecode(const SegmentView& segment, int64_t first_block,
                          absl::Span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  ForEachKept(segment, first_block, out.size(), [&](int64_t i, float value) { out[i] = value; });
}

void Topk2Codec::DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                                    absl::Span<float> acc) const {
  ForEachKept(segment, first_block, acc.size(), [&](int64_t i, float value) {
    const float term = weight * value;
    acc[i] = acc[i] + term;
  });
}

}  // namespace longhaul
