// Digests of bytes: XXH3-128 for bytes that must be equal between machines or after a crash,
// XXH3-64 for chunks on the wire. Not cryptographic. Pure, except for Digester's own state. On x86
// the instruction set is picked at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

struct Digest128 {
  uint64_t high = 0, low = 0;
  // 32 lower-case hexadecimal digits, the high half first.
  std::string Hex() const;
  friend bool operator==(const Digest128&, const Digest128&) = default;
};

// XXH3-128, seed 0 unless given.
Digest128 DigestOf(absl::string_view bytes, uint64_t seed = 0);
// XXH3-64, seed 0, of the pieces one after another.
uint64_t Hash64(absl::Span<const absl::Span<const uint8_t>> pieces);

// The bytes of fp32 values in memory (little endian on every supported machine).
inline absl::string_view BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// XXH3-128 of bytes that come in pieces: the same as DigestOf of all pieces together. Movable; not
// thread-safe.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;

  void Update(absl::string_view bytes);
  void Update(absl::Span<const float> values) { Update(BytesOf(values)); }
  // The digest of all bytes so far. More may follow.
  Digest128 Value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
