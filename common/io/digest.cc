#include "common/io/digest.h"

#include <bit>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/read_ahead.h"
// So that a state can live on the stack.
#define XXH_STATIC_LINKING_ONLY
#include "xxhash.h"
#if defined(__x86_64__)
// Replaces the names: with AVX2 and AVX-512 hashing is three times as fast.
#include "xxh_x86dispatch.h"
#endif

namespace longhaul {
namespace {

// Shorter inputs are hashed in one call.
constexpr size_t kAheadFrom = 16 << 10;

Digest128 ToDigest(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

using UpdateFunction = XXH_errorcode(XXH3_state_t* state, const void* bytes, size_t size);

// Hashes the bytes in parts, and reads ahead of them.
void UpdateAhead(UpdateFunction* update, XXH3_state_t* state, const void* bytes, size_t size) {
  // Smaller parts would slow the hash down.
  constexpr int64_t kPart = kReadAheadSpans * kReadAheadBytes;
  const char* at = static_cast<const char*>(bytes);
  for (; size >= kAheadFrom; at += kPart, size -= kPart) {
    for (int64_t number = 0; number < kReadAheadSpans; ++number)
      ReadAhead(at + number * kReadAheadBytes, number);
    update(state, at, kPart);
  }
  update(state, at, size);
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "fp32 bytes are hashed as they lie");

std::string Digest128::Hex() const { return absl::StrFormat("%016x%016x", high, low); }

Digest128 DigestOf(absl::string_view bytes, uint64_t seed) {
  if (bytes.size() < kAheadFrom)
    return ToDigest(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
  XXH3_state_t state;
  XXH3_128bits_reset_withSeed(&state, seed);
  UpdateAhead(XXH3_128bits_update, &state, bytes.data(), bytes.size());
  return ToDigest(XXH3_128bits_digest(&state));
}

uint64_t Hash64(absl::Span<const absl::Span<const uint8_t>> pieces) {
  if (pieces.size() == 1 && pieces[0].size() < kAheadFrom)
    return XXH3_64bits(pieces[0].data(), pieces[0].size());
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& piece : pieces)
    UpdateAhead(XXH3_64bits_update, &state, piece.data(), piece.size());
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
  UpdateAhead(XXH3_128bits_update, state_->xxh, bytes.data(), bytes.size());
}

Digest128 Digester::Value() const { return ToDigest(XXH3_128bits_digest(state_->xxh)); }

}  // namespace longhaul
