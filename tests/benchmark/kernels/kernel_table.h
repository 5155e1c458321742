// Measures kernels against what the core allows: its multiply-adds, or its memory. Kernel and
// limits take turns on this thread, and the best time of each counts, since other programs only
// make times longer. Times are those of the thread on its core.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tests/benchmark/harness/buffer.h"

namespace longhaul::benchmark {

// The least that a call must do.
struct Work {
  // Operations on float32, a multiply-add counts two, and any other vector instruction two for each
  // lane, too, since it takes the place of one.
  double operations = 0;
  // Bytes that are read from memory and written to it.
  double reads = 0, writes = 0;
  // The operations are those of the bf16 dot product.
  bool bfloat16 = false;
};

class KernelTable {
 public:
  struct Options {
    // "avx2", "avx512", ...: begins the names of rows.
    std::string instructions;
    // Only rows whose names contain it.
    std::string only;
    // The time for a row.
    double seconds = 0.25;
    // The size of arrays that shall not fit into caches.
    int64_t megabytes = 64;
  };
  explicit KernelTable(const Options& options);

  bool Wants(const std::string& kernel) const;
  // Prints a row: the rate, and its share of the limit. Without a target for peers.
  void Add(const std::string& kernel, const Work& work, const std::function<void()>& run,
           std::optional<double> target = 0.8);

  int64_t large_floats() const { return options_.megabytes << 18; }

 private:
  const Options options_;
  const Buffer from_, to_;
};

}  // namespace longhaul::benchmark
