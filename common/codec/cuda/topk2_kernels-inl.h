// topk2 as CUDA kernels. A thread block codes one segment, chunk by chunk: half-warp b holds block
// b of the chunk. The threshold is found bit by bit, by counting the magnitudes that reach it. Of
// the magnitudes that equal it the first places are kept. A place is (half-warp, row, lane) in this
// order, so that needs only counts for each half-warp and row.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include "common/codec/cuda/dense_kernels-inl.h"
#include "common/codec/cuda/half_warp-inl.h"
#include "common/codec/cuda/segment_jobs.h"
#include "common/codec/topk2_format.h"
#include "common/codec/topk2_levels.h"

namespace longhaul::cuda {

static_assert(kHalfWarps == topk2::kChunkBlocks, "a chunk is what a thread block holds at once");

inline constexpr int kBitmapWords = 2 * topk2::kKeptMax / 32;

struct Topk2State {
  // By half-warp. The two arrays alternate, so that a sum needs only one barrier.
  int32_t counts[2][kHalfWarps];
  uint32_t max[kHalfWarps];
  float kept[topk2::kKeptMax];
  uint16_t positions[topk2::kKeptMax];
  uint8_t entries[topk2::kKeptMax];
  uint32_t bitmap[kBitmapWords];
  // The levels.
  uint32_t words[2];
};

// Sums over the thread block, with one barrier in each call. All threads must call.
class BlockSums {
 public:
  __device__ BlockSums(const HalfWarp& self, Topk2State& state) : self_(self), state_(state) {}

  // The sum of every thread's number.
  __device__ int Total(int of_thread) {
    const int of_warp = static_cast<int>(__reduce_add_sync(0xffffffffu, of_thread));
    const int32_t* counts = Share(of_warp, self_.index / 2, self_.index % 2 == 0);
    int total = 0;
    for (int warp = 0; warp < kHalfWarps / 2; ++warp) total += counts[warp];
    return total;
  }
  // The sum of the numbers of the half-warps before this one.
  __device__ int Before(int of_half_warp) {
    const int32_t* counts = Share(of_half_warp, self_.index, true);
    int sum = 0;
    for (int h = 0; h < self_.index; ++h) sum += counts[h];
    return sum;
  }

 private:
  __device__ const int32_t* Share(int count, int place, bool speaks) {
    turn_ ^= 1;
    if (self_.lane == 0 && speaks) state_.counts[turn_][place] = count;
    __syncthreads();
    return state_.counts[turn_];
  }

  const HalfWarp self_;
  Topk2State& state_;
  int turn_ = 0;
};

// Which elements of a row a half-warp has found.
using RowVotes = uint32_t[kRows];

// The largest threshold that at least `keep` magnitudes of the chunk reach.
__device__ inline uint32_t Threshold(const LaneBlock& values, int keep, BlockSums& sums) {
  uint32_t threshold = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const uint32_t candidate = threshold | 1u << bit;
    int reach = 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) reach += kernels::Magnitude(values.u[row]) >= candidate;
    if (sums.Total(reach) >= keep) threshold = candidate;
  }
  return threshold;
}

// Puts the chunk's kept elements into state.kept and state.positions, in ascending position.
__device__ inline void Select(const LaneBlock& values, int keep, BlockSums& sums,
                              Topk2State& state) {
  const HalfWarp& self = values.self;
  const uint32_t threshold = Threshold(values, keep, sums);
  int own_above = 0;
#pragma unroll
  for (int row = 0; row < kRows; ++row) own_above += kernels::Magnitude(values.u[row]) > threshold;
  const int equal_kept = keep - sums.Total(own_above);
  RowVotes equal, chosen;
  int count_equal = 0;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    equal[row] = self.Ballot(kernels::Magnitude(values.u[row]) == threshold);
    count_equal += __popc(equal[row]);
  }
  int equals_before = sums.Before(count_equal);
  int count_chosen = 0;
  const uint32_t lanes_before = (1u << self.lane) - 1;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const bool is_equal = (equal[row] >> self.lane & 1) != 0;
    const bool first = equals_before + __popc(equal[row] & lanes_before) < equal_kept;
    const bool above = kernels::Magnitude(values.u[row]) > threshold;
    chosen[row] = self.Ballot(above || (is_equal && first));
    equals_before += __popc(equal[row]);
    count_chosen += __popc(chosen[row]);
  }
  int before = sums.Before(count_chosen);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const int j = before + __popc(chosen[row] & lanes_before);
    // At most `keep` are chosen, even if the chunk has NaN. So j is in range.
    if ((chosen[row] >> self.lane & 1) != 0 && j < keep) {
      state.kept[j] = values.u[row];
      state.positions[j] =
          static_cast<uint16_t>(self.index * static_cast<int>(kBlockElements) + values.Place(row));
    }
    before += __popc(chosen[row]);
  }
}

// Run by the first half-warp: makes levels and entries of the kept elements, which are in shared
// memory.
__device__ inline void CodeKept(const HalfWarp& self, int keep, uint32_t magnitude_max,
                                Topk2State& state) {
  constexpr int kKeptRows = topk2::kKeptMax / kLanes;
  LaneValues<kKeptRows> kept{self, {}};
#pragma unroll
  for (int row = 0; row < kKeptRows; ++row) {
    const int j = kept.Place(row);
    kept.u[row] = j < keep ? state.kept[j] : 0.0f;
  }
  const topk2::Split split = topk2::SplitOf(kept, keep, magnitude_max);
  const topk2::Levels levels = topk2::LevelsOf(kept, keep, magnitude_max, split);
  if (self.lane == 0) {
    state.words[0] = levels.low;
    state.words[1] = levels.high;
  }
#pragma unroll
  for (int row = 0; row < kKeptRows; ++row) {
    const int j = kept.Place(row);
    if (j >= keep) continue;
    const float x = kept.u[row];
    const int position = state.positions[j];
    const int bit = position / static_cast<int>(topk2::kGroupElements) + j;
    atomicOr(&state.bitmap[bit / 32], 1u << (bit % 32));
    state.entries[j] = topk2::EntryOf(position, split.IsHigh(x), x);
  }
}

__device__ inline topk2::Levels LevelsIn(const Topk2State& state) {
  return {static_cast<uint16_t>(state.words[0]), static_cast<uint16_t>(state.words[1])};
}

__device__ inline void WriteChunk(const topk2::ChunkShape& shape, const Topk2State& state,
                                  uint8_t* out) {
  const int group_bytes = static_cast<int>(shape.group_bytes());
  const int levels = static_cast<int>(topk2::kLevelBytes);
  for (int i = threadIdx.x; i < static_cast<int>(shape.bytes()); i += kThreads) {
    if (i < levels) {
      out[i] = static_cast<uint8_t>(state.words[i / 2] >> (i % 2 * 8));
    } else if (i < levels + group_bytes) {
      const int byte = i - levels;
      out[i] = static_cast<uint8_t>(state.bitmap[byte / 4] >> (byte % 4 * 8));
    } else {
      out[i] = state.entries[i - levels - group_bytes];
    }
  }
}

__device__ inline void Measure(const LaneBlock& values, int block, double* energies) {
  if (!kernels::IsMeasured(block)) return;
  const uint32_t max = values.MagnitudeMax();
  const float energy = kernels::SignalEnergy(values, kernels::EnergyFactor(max));
  if (values.self.lane == 0)
    energies[block / kernels::kSampleBlocks] = kernels::Energy(energy, max);
}

// Called by all threads. When it returns, the shared state is free for the next chunk.
__device__ inline void EncodeChunk(const EncodeJob& job, float decay, int chunk, BlockSums& sums,
                                   SegmentState& segment, Topk2State& state) {
  const HalfWarp self;
  const int first = chunk * static_cast<int>(topk2::kChunkElements);
  const topk2::ChunkShape shape = {
      std::min(int64_t{topk2::kChunkElements}, static_cast<int64_t>(job.elements - first))};
  const int keep = static_cast<int>(shape.kept());
  const int block = chunk * kHalfWarps + self.index;
  LaneBlock values = LoadBlock(self, job, decay, block);
  const uint32_t own_max = values.MagnitudeMax();
  if (own_max > kernels::kFiniteMax) NoteBad(values, block, segment);
  const bool present = block * static_cast<int>(kBlockElements) < job.elements;
  if (present) Measure(values, block, segment.signal);

  if (self.lane == 0) state.max[self.index] = own_max;
  if (threadIdx.x < kBitmapWords) state.bitmap[threadIdx.x] = 0;
  Select(values, keep, sums, state);
  __syncthreads();
  if (self.index == 0) {
    uint32_t max = 0;
    for (int h = 0; h < kHalfWarps; ++h) max = std::max(max, state.max[h]);
    CodeKept(self, keep, max, state);
  }
  __syncthreads();
  WriteChunk(shape, state, job.out + chunk * static_cast<int>(topk2::kChunkBytes));
  // Lost is all of u, except the levels of the kept elements.
  const topk2::Levels levels = LevelsIn(state);
  for (int j = 0; j < keep; ++j) {
    const int i =
        static_cast<int>(state.positions[j]) - self.index * static_cast<int>(kBlockElements);
    if (i < 0 || i >= kBlockElements || i % kLanes != self.lane) continue;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (row == i / kLanes) values.u[row] = values.u[row] - levels.ValueOf(state.entries[j]);
    }
  }
  if (present) Measure(values, block, segment.error);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const int at = block * static_cast<int>(kBlockElements) + values.Place(row);
    if (job.lost != nullptr && at < job.elements) job.lost[at] = values.u[row];
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, 2)
    EncodeTopk2(const EncodeJob* jobs, EncodeReport* reports, float decay) {
  __shared__ SegmentState segment;
  __shared__ Topk2State state;
  const EncodeJob job = jobs[blockIdx.x];
  const HalfWarp self;
  BlockSums sums(self, state);
  ClearState(segment);
  const int chunks = static_cast<int>(CeilDiv(job.elements, topk2::kChunkElements));
  for (int chunk = 0; chunk < chunks; ++chunk) EncodeChunk(job, decay, chunk, sums, segment, state);
  if (threadIdx.x == 0) reports[blockIdx.x] = Report(job.elements, 0, segment);
}

// The place of the j-th set bit of a chunk's groups, or -1.
__device__ inline int PlaceOfBit(const uint8_t* bytes, int count, int j) {
  for (int byte = 0; byte < count; ++byte) {
    uint32_t bits = bytes[byte];
    const int ones = __popc(bits);
    if (j >= ones) {
      j -= ones;
      continue;
    }
    for (; j > 0; --j) bits &= bits - 1;
    return byte * 8 + __ffs(static_cast<int>(bits)) - 1;
  }
  return -1;
}

// As DecodeDense. If the bytes are not valid, several kept elements may have one place; then any of
// their values may win.
__global__ void __launch_bounds__(kThreads)
    DecodeTopk2(const DecodeJob* jobs, float weight, bool accumulate) {
  const DecodeJob job = jobs[blockIdx.x];
  if (!accumulate) {
    for (int i = threadIdx.x; i < job.count; i += kThreads) job.out[i] = 0;
  }
  __syncthreads();
  constexpr int kKept = topk2::kKeptMax, kChunk = topk2::kChunkElements;
  const int begin = job.first_block * static_cast<int>(kBlockElements), end = begin + job.count;
  const int chunks = (end + kChunk - 1) / kChunk;
  for (int c = begin / kChunk + static_cast<int>(threadIdx.x) / kKept; c < chunks;
       c += kThreads / kKept) {
    const int at = c * kChunk, j = static_cast<int>(threadIdx.x) % kKept;
    const topk2::ChunkShape shape = {
        std::min(int64_t{kChunk}, static_cast<int64_t>(job.elements - at))};
    if (j >= static_cast<int>(shape.kept())) continue;
    const uint8_t* levels_at = job.payload + c * static_cast<int>(topk2::kChunkBytes);
    const uint8_t* groups = levels_at + topk2::kLevelBytes;
    const int bit = PlaceOfBit(groups, static_cast<int>(shape.group_bytes()), j);
    if (bit < 0) continue;
    const uint8_t entry = groups[shape.group_bytes() + j];
    const topk2::Levels levels = {static_cast<uint16_t>(scale_word::Load(levels_at, 0)),
                                  static_cast<uint16_t>(scale_word::Load(levels_at, 1))};
    const int element = at + (bit - j) * static_cast<int>(topk2::kGroupElements) +
                        (entry & topk2::Entry::kPosition);
    if (element < begin || element >= end) continue;
    const float value = levels.ValueOf(entry);
    float& out = job.out[element - begin];
    if (accumulate) {
      const float term = weight * value;
      out = out + term;
    } else {
      out = value;
    }
  }
}

}  // namespace longhaul::cuda
