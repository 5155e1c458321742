#include "common/io/sha256.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "openssl/evp.h"

namespace longhaul {

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    LH_CHECK(context != nullptr, "out of memory");
    LH_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1, "SHA-256 is there");
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  EVP_MD_CTX* const context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(absl::string_view bytes) {
  LH_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "a digest");
}

std::string Sha256::Hex() const {
  const State copy;
  std::array<unsigned char, 32> digest;
  const bool done = EVP_MD_CTX_copy_ex(copy.context, state_->context) == 1 &&
                    EVP_DigestFinal_ex(copy.context, digest.data(), nullptr) == 1;
  LH_CHECK(done, "a digest");
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Hex();
}

absl::Status AddFileTo(Sha256& sha, const File& file, int64_t from, int64_t to) {
  constexpr int64_t kPieceBytes = 1 << 20;
  std::string piece;
  for (int64_t at = from; at < to; at += static_cast<int64_t>(piece.size())) {
    piece.resize(std::min(kPieceBytes, to - at));
    LH_RETURN_IF_ERROR(file.ReadExactly(at, absl::MakeSpan(piece)));
    sha.Update(piece);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
