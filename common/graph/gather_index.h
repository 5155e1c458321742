// Which bytes of a row each thread of a GPU reads when rows are gathered straight from host memory:
// the arithmetic of the kernel (worker/graph/cuda/gather_kernels-inl.h), of its emulation, and of
// `longhaul simulate gather-requests`. After PyTorch-Direct (arXiv 2103.03330) and DGL.
//
// Host memory is read in lines of 128 bytes, and each line that an access of a warp (32 threads)
// touches is a request over PCIe. So the accesses of a row begin at the line in which it begins,
// not at its first byte: the threads before the row read nothing. Then each line is touched once.
// Pure; compiled for the host and for devices.
#pragma once

#include <cstdint>

namespace longhaul {

inline constexpr int kGatherWarp = 32;
inline constexpr int64_t kGatherLine = 128;
inline constexpr int kGatherUnitMax = 16;

// How the rows of a table are read.
struct GatherShape {
  int64_t row_bytes = 0;
  // Bytes that a thread reads at once: a power of two that divides `row_bytes` and all addresses.
  int unit = 4;
  // Accesses begin at lines.
  bool aligned = true;
  // Threads of a row: a power of two, a warp or less.
  int lanes = kGatherWarp;
};

// The largest unit for rows of a table at an address, that are written to another one.
constexpr int GatherUnit(uint64_t table, uint64_t out, int64_t row_bytes) {
  const uint64_t all = table | out | static_cast<uint64_t>(row_bytes) | kGatherUnitMax;
  return static_cast<int>(all & (~all + 1));
}

// For rows of up to a line, alignment saves nothing: they are read by so many threads as they have
// units, and a warp reads several.
constexpr GatherShape GatherShapeOf(int64_t row_bytes, int unit) {
  GatherShape shape{.row_bytes = row_bytes, .unit = unit};
  shape.aligned = row_bytes > kGatherLine;
  while (!shape.aligned && shape.lanes > 1 && shape.lanes / 2 * int64_t{unit} >= row_bytes)
    shape.lanes /= 2;
  return shape;
}

// Bytes before the row that its first access covers.
constexpr int64_t GatherShift(const GatherShape& shape, uint64_t row) {
  return shape.aligned ? static_cast<int64_t>(row % kGatherLine) : 0;
}

// Accesses of a row that begins at the address `row`.
constexpr int64_t GatherPasses(const GatherShape& shape, uint64_t row) {
  const int64_t of_a_pass = int64_t{shape.lanes} * shape.unit;
  return (shape.row_bytes + GatherShift(shape, row) + of_a_pass - 1) / of_a_pass;
}

// The first byte of the row that a lane reads in an access. Below 0, or row_bytes and above: none.
constexpr int64_t GatherByte(const GatherShape& shape, uint64_t row, int64_t pass, int lane) {
  return (pass * shape.lanes + lane) * shape.unit - GatherShift(shape, row);
}

constexpr bool GatherReads(const GatherShape& shape, int64_t byte) {
  return byte >= 0 && byte < shape.row_bytes;
}

// Lines that the accesses of a row touch: requests. The threads of an access read bytes that follow
// each other.
constexpr int64_t GatherLines(const GatherShape& shape, uint64_t row) {
  int64_t lines = 0;
  for (int64_t pass = 0; pass < GatherPasses(shape, row); ++pass) {
    const int64_t from = GatherByte(shape, row, pass, 0);
    const int64_t to = GatherByte(shape, row, pass, shape.lanes - 1) + shape.unit;
    if (to <= 0) continue;
    const uint64_t first = row + static_cast<uint64_t>(from < 0 ? 0 : from);
    const uint64_t end = row + static_cast<uint64_t>(to < shape.row_bytes ? to : shape.row_bytes);
    lines += static_cast<int64_t>((end - 1) / kGatherLine - first / kGatherLine) + 1;
  }
  return lines;
}

}  // namespace longhaul
