// The dense codecs (dense_policy.h) as CUDA kernels. A thread block codes one segment; each of its
// half-warps takes every 32nd block. Scales and energies of the segment are collected in shared
// memory, where the e3m0 codec finds the blocks that are too small for its scale bytes.
//
// CUDA code. A test compiles it for the CPU (tests/testing/cuda_emulation.h).
#pragma once

#include "common/codec/cuda/half_warp-inl.h"
#include "common/codec/cuda/packing-inl.h"
#include "common/codec/cuda/segment_jobs.h"
#include "common/codec/e3m0_format.h"
#include "common/codec/kernels/dense_policy.h"
#include "common/codec/kernels/segment_energy.h"
#include "common/codec/rounding_noise.h"

namespace longhaul::cuda {

// The places of the parts of a payload. Null: there is none, and no part is used.
template <typename Policy, typename Byte>
struct Planes {
  static constexpr int kCodeBytes = kBlockElements * Policy::kCodeBits / 8;
  Byte* codes;
  Byte* scales;
  int elements;
  bool aligned;

  __device__ Planes(Byte* payload, int elements)
      : codes(payload),
        scales(payload == nullptr ? nullptr : payload + (elements * Policy::kCodeBits + 7) / 8),
        elements(elements),
        aligned(IsAligned(payload)) {}
  __device__ int Blocks() const { return (elements + kBlockElements - 1) / kBlockElements; }
  __device__ int ElementsOf(int block) const {
    return std::min<int>(kBlockElements, elements - block * kBlockElements);
  }
  __device__ Byte* CodesOf(int block) const { return codes + block * kCodeBytes; }
};

// State that the blocks of a segment share.
struct SegmentState {
  uint32_t scales[kTileBlocks];
  double error[kTileBlocks / kernels::kSampleBlocks], signal[kTileBlocks / kernels::kSampleBlocks];
  uint32_t largest_scale;
  int32_t first_bad;
};

__device__ inline LaneBlock LoadBlock(const HalfWarp& self, const EncodeJob& job, float decay,
                                      int block) {
  LaneBlock result{self, {}};
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const int at = block * kBlockElements + result.Place(row);
    result.u[row] =
        at < job.elements ? kernels::InputAt(job.values, job.minus, job.error, decay, at) : 0.0f;
  }
  return result;
}

__device__ inline void NoteBad(const LaneBlock& values, int block, SegmentState& state) {
  for (int row = 0; row < kRows; ++row) {
    if (kernels::Magnitude(values.u[row]) > kernels::kFiniteMax) {
      atomicMin(&state.first_bad, static_cast<int32_t>(block * kBlockElements) + values.Place(row));
    }
  }
}

template <typename Policy>
__device__ void EncodeBlock(const HalfWarp& self, const EncodeJob& job, const LaneBlock& values,
                            int block, const Planes<Policy, uint8_t>& planes, SegmentState& state) {
  const uint32_t max = values.MagnitudeMax();
  const int elements = planes.ElementsOf(block);
  uint32_t word = 0;
  const typename Policy::Scale scale = Policy::Choose(values, max, elements, &word);
  if (max > kernels::kFiniteMax) NoteBad(values, block, state);
  LaneNoise noise;
  if (Policy::kStochastic)
    noise = LaneNoise(job.noise_key, job.noise_first_block + block, self.lane);
  if (kernels::IsMeasured(block)) {
    const float factor = kernels::EnergyFactor(max);
    const float error = kernels::ErrorEnergy<Policy>(values, scale, factor, elements, noise);
    const float signal = kernels::SignalEnergy(values, factor);
    if (self.lane == 0) {
      state.error[block / kernels::kSampleBlocks] = kernels::Energy(error, max);
      state.signal[block / kernels::kSampleBlocks] = kernels::Energy(signal, max);
    }
  }
  if (self.lane == 0) {
    state.scales[block] = word;
    if (Policy::kRelativeScales) atomicMax(&state.largest_scale, word);
  }
  LaneCodes codes;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const float x = values.u[row];
    codes[row] =
        Policy::Code(x, scale, Policy::kStochastic ? noise.PlusOne(values.Place(row)) : 1.0f);
    const int at = block * kBlockElements + values.Place(row);
    if (job.lost != nullptr && at < job.elements)
      job.lost[at] = x - Policy::Value(codes[row], scale);
  }
  Packing<Policy::kCodeBits>::Put(self, codes, elements, planes.CodesOf(block), planes.aligned);
}

// The block becomes zeros, so the values of its codes are lost, too.
template <typename Policy>
__device__ void ZeroBlock(const HalfWarp& self, const EncodeJob& job, int block,
                          const Planes<Policy, uint8_t>& planes, SegmentState& state) {
  const int elements = planes.ElementsOf(block);
  LaneCodes codes;
  if (job.lost != nullptr) {
    Packing<Policy::kCodeBits>::Get(self, elements, planes.CodesOf(block), planes.aligned, codes);
    const typename Policy::Scale scale = e3m0::LevelsOf(state.scales[block]);
    for (int row = 0; row < kRows; ++row) {
      const int i = self.lane + kLanes * row;
      if (i < elements) {
        float& lost = job.lost[block * kBlockElements + i];
        lost = lost + Policy::Value(codes[row], scale);
      }
    }
  }
  // All threads must have read their codes before any byte with two codes is cleared.
  __syncwarp(self.mask);
  for (int row = 0; row < kRows; ++row) codes[row] = 0;
  Packing<Policy::kCodeBits>::Put(self, codes, elements, planes.CodesOf(block), planes.aligned);
  if (self.lane == 0 && kernels::IsMeasured(block)) {
    const int sample = block / kernels::kSampleBlocks;
    state.error[sample] = state.signal[sample];
  }
}

template <typename Policy>
__device__ int32_t WriteScales(const HalfWarp& self, const EncodeJob& job,
                               const Planes<Policy, uint8_t>& planes, SegmentState& state) {
  if constexpr (Policy::kRelativeScales) {
    const int32_t base_exponent = e3m0::BaseExponentOf(state.largest_scale);
    const int32_t origin = e3m0::ScaleOrigin(base_exponent);
    for (int block = self.index; block < planes.Blocks(); block += kHalfWarps) {
      const int32_t index = state.scales[block];
      if (e3m0::IsOutOfRange(index, origin)) ZeroBlock(self, job, block, planes, state);
      if (self.lane == 0) planes.scales[block] = e3m0::ScaleByte(index, origin);
    }
    return base_exponent;
  } else {
    if (Policy::kScaleBytes == sizeof(uint16_t)) {
      for (int block = threadIdx.x; block < planes.Blocks(); block += kThreads)
        Store<uint16_t>(planes.scales + 2 * block, state.scales[block], false);
    }
    return 0;
  }
}

__device__ inline EncodeReport Report(int elements, int32_t base_exponent,
                                      const SegmentState& state) {
  const kernels::BlockEnergy energy = kernels::SegmentEnergy(elements, [&](int64_t b) {
    const int64_t sample = b / kernels::kSampleBlocks;
    return kernels::BlockEnergy{state.error[sample], state.signal[sample]};
  });
  const int32_t first_bad = state.first_bad < elements ? state.first_bad : -1;
  return {base_exponent, first_bad, energy.error, energy.signal};
}

__device__ inline void ClearState(SegmentState& state) {
  if (threadIdx.x == 0) {
    state.largest_scale = 0;
    state.first_bad = static_cast<int32_t>(kTileElements);
  }
  __syncthreads();
}

template <typename Policy>
__global__ void __launch_bounds__(kThreads)
    EncodeDense(const EncodeJob* jobs, EncodeReport* reports, float decay) {
  __shared__ SegmentState state;
  const EncodeJob job = jobs[blockIdx.x];
  const HalfWarp self;
  const Planes<Policy, uint8_t> planes(job.out, job.elements);
  ClearState(state);
  for (int block = self.index; block < planes.Blocks(); block += kHalfWarps)
    EncodeBlock(self, job, LoadBlock(self, job, decay, block), block, planes, state);
  __syncthreads();
  const int32_t base_exponent = WriteScales(self, job, planes, state);
  __syncthreads();
  if (threadIdx.x == 0) reports[blockIdx.x] = Report(job.elements, base_exponent, state);
}

// visit(row, value) for this thread's elements of a coded block. `base_exponent` is the segment's.
template <typename Policy, typename Visit>
__device__ void VisitDecoded(const HalfWarp& self, const Planes<Policy, const uint8_t>& planes,
                             int block, int32_t base_exponent, Visit visit) {
  const typename Policy::Scale scale = Policy::FromPlane(planes.scales, block, base_exponent);
  LaneCodes codes;
  Packing<Policy::kCodeBits>::Get(self, planes.ElementsOf(block), planes.CodesOf(block),
                                  planes.aligned, codes);
#pragma unroll
  for (int row = 0; row < kRows; ++row) visit(row, Policy::Value(codes[row], scale));
}

// accumulate: out += weight * decoded, with one multiplication and one addition. Otherwise out =
// decoded.
template <typename Policy>
__global__ void __launch_bounds__(kThreads)
    DecodeDense(const DecodeJob* jobs, float weight, bool accumulate) {
  const DecodeJob job = jobs[blockIdx.x];
  const HalfWarp self;
  const Planes<Policy, const uint8_t> planes(job.payload, job.elements);
  const int blocks = (job.count + static_cast<int>(kBlockElements) - 1) / kBlockElements;
  for (int b = self.index; b < blocks; b += kHalfWarps) {
    const auto put = [&](int row, float value) {
      const int at = b * static_cast<int>(kBlockElements) + self.lane + kLanes * row;
      if (at >= job.count) return;
      if (accumulate) {
        const float term = weight * value;
        job.out[at] = job.out[at] + term;
      } else {
        job.out[at] = value;
      }
    };
    VisitDecoded<Policy>(self, planes, job.first_block + b, job.base_exponent, put);
  }
}

template <typename Policy>
__device__ LaneBlock SumBlock(const HalfWarp& self, const ReduceJob& job, int block) {
  LaneBlock sum{self, {}};
  for (int s = 0; s < job.source_count; ++s) {
    const ReduceSource source = job.sources[s];
    if (source.payload == nullptr) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const int at = block * kBlockElements + sum.Place(row);
        if (at < job.elements) sum.u[row] = sum.u[row] + source.values[at];
      }
      continue;
    }
    const Planes<Policy, const uint8_t> planes(source.payload, job.elements);
    VisitDecoded<Policy>(self, planes, block, 0, [&](int row, float value) {
      const int at = block * kBlockElements + sum.Place(row);
      if (at < job.elements) sum.u[row] = sum.u[row] + value;
    });
  }
  return sum;
}

// Decodes, sums and codes again without going through memory. For codecs whose scales do not depend
// on other blocks.
template <typename Policy>
__global__ void __launch_bounds__(kThreads)
    ReduceDense(const ReduceJob* jobs, EncodeReport* reports, float decay) {
  static_assert(!Policy::kRelativeScales && !Policy::kStochastic);
  __shared__ SegmentState state;
  const ReduceJob job = jobs[blockIdx.x];
  const HalfWarp self;
  const Planes<Policy, uint8_t> planes(job.out, job.elements);
  const EncodeJob code{.lost = job.lost, .out = job.out, .elements = job.elements};
  ClearState(state);
  for (int block = self.index; block < planes.Blocks(); block += kHalfWarps) {
    LaneBlock u = SumBlock<Policy>(self, job, block);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int at = block * kBlockElements + u.Place(row);
      if (at >= job.elements) continue;
      if (job.sum != nullptr) job.sum[at] = u.u[row];
      u.u[row] = kernels::WithError(u.u[row], job.error, decay, at);
    }
    if (job.out != nullptr) EncodeBlock(self, code, u, block, planes, state);
  }
  if (job.out == nullptr) return;
  __syncthreads();
  WriteScales(self, code, planes, state);
  __syncthreads();
  if (threadIdx.x == 0) reports[blockIdx.x] = Report(job.elements, 0, state);
}

}  // namespace longhaul::cuda
