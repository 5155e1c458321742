// The kernels of this product that its forecasts depend on, to be measured over working sets of
// given sizes: what ranks run on the host's processors, without torch.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "worker/measure/rate.h"

namespace longhaul {

struct HostKernel {
  // adamw, encode, gather, gemm.
  std::string_view name;
  // What an element is, for people.
  std::string_view element;
  // What an element moves between memory and caches if nothing stays in them.
  double memory_bytes = 0;
  // The least working set.
  int64_t bytes_min = 0;
  // Work of a thread over about so many bytes, at least `bytes_min`.
  KernelRun (*make)(int64_t bytes) = nullptr;
};
absl::Span<const HostKernel> HostKernels();
// Null: there is none.
const HostKernel* FindHostKernel(std::string_view name);

// Rows with a square matrix, as in a model of this width: an element is a multiplication and
// addition.
KernelRun GemmRun(int64_t dim, bool bfloat16, int64_t rows);
// A pool's contribution, with error feedback; and the decode of a commit.
KernelRun EncodeRun(CodecKind kind, int64_t elements);
KernelRun DecodeRun(CodecKind kind, int64_t elements);
// An element is a byte that is read or written.
KernelRun CopyRun(int64_t bytes);
// The same, but in place: so that memory moves no more bytes than those, which a copy's does if it
// fetches what is overwritten. Next to no work for the core.
KernelRun UpdateRun(int64_t bytes);

// From `least` to `most`, each about 2^(1 / of_octave) times the one before.
std::vector<int64_t> WorkingSets(int64_t least, int64_t most, int of_octave);

}  // namespace longhaul
