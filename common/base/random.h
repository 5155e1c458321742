// Counter-based random numbers: a value is a pure function of (key, counter), so any position can
// be computed anywhere, on any number of ranks, without state to save. Philox-4x32-10 (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
#pragma once

#include <array>
#include <cstdint>

namespace longhaul {

// Fewer rounds suffice for noise that must pass only statistical tests: 7 rounds pass BigCrush
// (same paper, table 2).
template <int kRounds = 10>
constexpr std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_high,
                                         uint64_t counter_low) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// The first two words as one number.
constexpr uint64_t Philox64(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  const std::array<uint32_t, 4> words = Philox(key, counter_high, counter_low);
  return uint64_t{words[1]} << 32 | words[0];
}

// A stream of numbers for one key, for code that wants a sequence. Copyable; not thread-safe.
class Random {
 public:
  explicit Random(uint64_t key, uint64_t stream = 0) : key_(key), stream_(stream) {}
  // Not in the header, so that it is also fast where its caller is not optimized, as in tests.
  uint64_t Next();
  // Uniform in [0, n), n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }
  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t key_, stream_, counter_ = 0;
};

}  // namespace longhaul
