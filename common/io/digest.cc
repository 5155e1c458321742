#include "common/io/digest.h"

#include <bit>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/read_ahead.h"
#define XXH_STATIC_LINKING_ONLY  // A state on the stack.
#include "xxhash.h"
#if defined(__x86_64__)
#include "xxh_x86dispatch.h"  // Replaces the names: AVX2 and AVX-512 hash three times as fast.
#endif

namespace longhaul {
namespace {

// What is shorter is hashed in one go.
constexpr size_t kAheadFrom = 16 << 10;

// Hands out the bytes in parts, reading ahead of them.
template <typename Update>
void ForEachPart(const void* bytes, size_t size, Update update) {
  constexpr size_t kPart = 8 * kReadAheadBytes;  // Smaller ones would cost the hash its pace.
  const char* at = static_cast<const char*>(bytes);
  for (; size > kPart; at += kPart, size -= kPart) {
    for (int64_t number = 0; number < 8; ++number) ReadAhead(at + number * kReadAheadBytes, number);
    update(at, kPart);
  }
  update(at, size);
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "fp32 bytes are hashed as they lie");

std::string Digest128::Hex() const { return absl::StrFormat("%016x%016x", high, low); }

Digest128 DigestOf(absl::string_view bytes, uint64_t seed) {
  XXH128_hash_t hash;
  if (bytes.size() < kAheadFrom) {
    hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  } else {
    XXH3_state_t state;
    XXH3_128bits_reset_withSeed(&state, seed);
    ForEachPart(bytes.data(), bytes.size(),
                [&](const void* part, size_t size) { XXH3_128bits_update(&state, part, size); });
    hash = XXH3_128bits_digest(&state);
  }
  return {hash.high64, hash.low64};
}

uint64_t Hash64(absl::Span<const absl::Span<const uint8_t>> pieces) {
  if (pieces.size() == 1 && pieces[0].size() < kAheadFrom)
    return XXH3_64bits(pieces[0].data(), pieces[0].size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& piece : pieces) {
    ForEachPart(piece.data(), piece.size(),
                [&](const void* part, size_t size) { XXH3_64bits_update(&state, part, size); });
  }
  return XXH3_64bits_digest(&state);
}

struct Digester::State {
  State() : xxh(XXH3_createState()) {
    LH_CHECK(xxh != nullptr, "out of memory");
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* const xxh;
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::Update(absl::string_view bytes) {
  ForEachPart(bytes.data(), bytes.size(),
              [&](const void* part, size_t size) { XXH3_128bits_update(state_->xxh, part, size); });
}

Digest128 Digester::Value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace longhaul
